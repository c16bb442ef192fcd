import { failpoint } from "@roamfleet/clock/failpoint";
import type { Desired } from "@roamfleet/protocol/link";
import { configFiles, Configs, type ConfigState } from "../configs/configs.ts";
import type { Deployments, DeploymentsOptions, Logger } from "../contract.ts";
import { type Timing, TIMING } from "../runtime/limits.ts";
import { type StatePaths, statePaths } from "../runtime/paths.ts";
import { pruneVersions } from "../runtime/staged-versions.ts";
import { Journal } from "./journal.ts";
import type { AppState, DesiredAppState } from "./state.ts";
import { AppWorker } from "./worker.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { ArtifactStore, LayerStore } from "../runtime/artifact-store.ts";
import { BundleExecutor, type RuntimeOptions } from "../runtime/bundle.ts";
import { ContainerExecutor } from "../runtime/docker/container-executor.ts";
import { Engine } from "../runtime/docker/engine.ts";
import type { Executor } from "../runtime/executor.ts";
import { FileExecutor } from "../runtime/file.ts";
import type { RegistryLogin } from "../runtime/docker/images.ts";

export interface DeploymentsTuning {
  timing?: Partial<Timing>;
  /** Called between any two side effects with the name of the point. */
  on_step?: (name: string) => void;
}

/** Brings the robot's apps and configs to their desired state, and keeps them running while the server is unreachable. */
export function createDeployments(options: DeploymentsOptions, tuning: DeploymentsTuning = {}): Deployments {
  const { clock, log, config, reporter, fetcher } = options;
  const timing = { ...TIMING, ...tuning.timing };
  const on_step = tuning.on_step ?? ((name) => failpoint(name, "step"));
  const paths = statePaths(options.state_directory);
  const logins = new RegistryLogins();
  const on_lost = (app?: string): void => {
    for (const worker of workers.values()) if (app === undefined || worker.app === app) worker.lookAgain();
  };
  const runtime = openRuntime(options, { paths, timing, on_step, logins, on_lost });
  const { artifacts, engine, executors } = runtime;
  const journal = openJournal<AppState>(paths.journal, ({ app }) => app, log);
  const config_journal = openJournal<ConfigState>(paths.config_journal, ({ namespace }) => namespace, log);
  const workers = new Map<string, AppWorker>();
  let desired = options.desired;
  let running = false;
  const on_change = (namespace: string): void => {
    options.on_config?.(namespace);
    for (const app of workers.keys()) for (const executor of executors) executor.reload(app);
  };
  const files = configFiles(paths);
  const configs = new Configs({ journal: config_journal, files, clock, timing, log, reporter, fetcher, on_step, on_change });
  const pruneDownloads = (): void => artifacts.prune(wantedArtifacts(workers.values()));
  const workerOf = (app: string): AppWorker => {
    let worker = workers.get(app);
    if (worker === undefined) {
      worker = makeWorker(app, options, { runtime, paths, timing, on_step, journal, on_finished: pruneDownloads });
      workers.set(app, worker);
      if (running) worker.start();
    }
    return worker;
  };
  const applyDesired = (): void => {
    if (desired === undefined) return;
    for (const app of Object.keys(desired.apps)) workerOf(app);
    for (const [app, worker] of workers) worker.setDesired(desiredStateOf(desired, app));
    configs.desired(desired.configs);
  };

  return {
    get kinds() {
      return executors.filter(({ available }) => available !== false).map(({ kind }) => kind);
    },
    learn: (newer) => logins.learn(newer),
    desired(newer) {
      desired = newer;
      if (running) applyDesired();
    },
    workloads: () => [...workers.values()].flatMap((worker) => worker.workload() ?? []),
    apps: () => [...workers.values()].map((worker) => worker.status()),
    place: (app) => executors.map((executor) => executor.place?.(app)).find((place) => place !== undefined),
    announce() {
      for (const worker of workers.values()) worker.announce();
      configs.announce();
    },
    async start() {
      await engine.start();
      running = true;
      for (const app of journal.records.keys()) workerOf(app);
      pruneDownloads();
      applyDesired();
      for (const worker of workers.values()) worker.start();
      configs.start();
    },
    async stop() {
      running = false;
      await Promise.all([configs.stop(), ...[...workers.values()].map((worker) => worker.stop())]);
      await Promise.all(executors.map((executor) => executor.close(config.keep_workloads)));
      journal.close();
      config_journal.close();
    },
  };
}

interface WorkerSeams {
  runtime: RuntimeParts;
  paths: StatePaths;
  timing: Timing;
  on_step: (name: string) => void;
  journal: Journal<AppState>;
  on_finished: () => void;
}

function makeWorker(app: string, options: DeploymentsOptions, { runtime, paths, ...seams }: WorkerSeams): AppWorker {
  const { clock, log, reporter, guard, permission, server_time, on_app } = options;
  return new AppWorker({
    app,
    guard,
    keep_versions: (release_ids) => {
      pruneVersions(paths, app, release_ids);
      runtime.containers.prune(app, release_ids);
    },
    executors: runtime.executors,
    clock,
    log,
    reporter,
    permission,
    server_time,
    on_change: on_app,
    ...seams,
  });
}

function openJournal<T>(file: string, key: (record: T) => string, log: Logger): Journal<T> {
  const { journal, damaged } = Journal.open(file, key);
  if (damaged > 0) log.warn({ damaged, file }, "a journal has damaged lines");
  return journal;
}

function wantedArtifacts(workers: Iterable<AppWorker>): Set<string> {
  const releases = [...workers].map(({ state }) => state.work?.release);
  return new Set(releases.flatMap((release) => (release ? [release.artifact_sha256] : [])));
}

const desiredStateOf = (desired: Desired, app: string): DesiredAppState =>
  Object.hasOwn(desired.apps, app) ? desired.apps[app]! : "absent";

interface RuntimeParts {
  artifacts: ArtifactStore;
  bundles: BundleExecutor;
  containers: ContainerExecutor;
  engine: Engine;
  executors: Executor[];
}

interface RuntimeSeams {
  paths: StatePaths;
  timing: Timing;
  on_step: (name: string) => void;
  logins: RegistryLogins;
  /** An app's workload has disappeared; without a name: something that any app may need has become available. */
  on_lost: (app?: string) => void;
}

function openRuntime(
  { clock, log, logs, config, fetcher, guard }: DeploymentsOptions,
  { paths, timing, on_step, logins, on_lost }: RuntimeSeams,
): RuntimeParts {
  for (const directory of [paths.downloads, paths.files, paths.configs, paths.apps]) makeDirectory(directory);
  const artifacts = new ArtifactStore({ directory: paths.downloads, fetcher, clock, timing });
  const requires_signature = (): boolean => guard?.requires_signature === true;
  const runtime: RuntimeOptions = { paths, artifacts, config, clock, timing, log, logs, on_step, on_lost, requires_signature };
  const bundles = new BundleExecutor(runtime);
  const engine = new Engine({ sockets: config.container_sockets, clock, timing, log, on_answer: () => on_lost() });
  const layers = new LayerStore({ directory: paths.layers, fetcher, clock, timing });
  const containers = new ContainerExecutor({ ...runtime, engine, layers, login: (release_id) => logins.of(release_id) });
  const files = new FileExecutor({
    ...runtime,
    signal_app: (app, signal) => bundles.signal(app, signal) || containers.signal(app, signal),
  });
  // Bundles come last: when an app is removed, the other executors find their own data only while its directory exists.
  return { artifacts, bundles, containers, engine, executors: [containers, files, bundles] };
}

/** Logins for registries: sent with each desired state, kept in memory only. */
class RegistryLogins {
  #of_release = new Map<string, RegistryLogin>();

  /** Replaces the logins by those of the newer desired state. */
  learn({ apps }: Desired): void {
    const releases = Object.values(apps).flatMap(({ release }) =>
      release?.registry_auth ? [[release.id, release.registry_auth] as const] : [],
    );
    this.#of_release = new Map(releases);
  }

  of(release_id: string): RegistryLogin | undefined {
    return this.#of_release.get(release_id);
  }
}
