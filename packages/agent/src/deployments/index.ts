import { failpoint } from "@robofleet/clock/failpoint";
import type { Desired } from "@robofleet/protocol/link";
import { Configs } from "../configs/index.ts";
import type { Deployments, DeploymentsOptions, Logger, WorkloadStatus } from "../contract.ts";
import { ArtifactStore } from "../runtime/artifact-store.ts";
import { BundleExecutor, type RuntimeOptions } from "../runtime/bundle.ts";
import { ContainerExecutor } from "../runtime/docker/container-executor.ts";
import { Engine } from "../runtime/docker/engine.ts";
import { LayerStore } from "../runtime/docker/layer-store.ts";
import { RegistryLogins } from "../runtime/docker/registry-logins.ts";
import type { Executor } from "../runtime/executor.ts";
import { FileExecutor } from "../runtime/file.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { type Timing, TIMING } from "../runtime/limits.ts";
import { type StatePaths, statePaths } from "../runtime/paths.ts";
import { pruneVersions } from "../runtime/staged-versions.ts";
import { Journal } from "./journal.ts";
import { type AppState, type Wish } from "./state.ts";
import { AppWorker } from "./worker.ts";

/** What only tests change. */
export interface DeploymentsTuning {
  timing?: Partial<Timing>;
  /** Called between any two side effects with the name of the place. */
  on_step?: (name: string) => void;
}

/** Brings the robot's apps and configs to what the server wants, and keeps them running without it. */
export function createDeployments(options: DeploymentsOptions, tuning: DeploymentsTuning = {}): Deployments {
  const { clock, log, config, reporter, fetcher } = options;
  const timing = { ...TIMING, ...tuning.timing };
  const on_step = tuning.on_step ?? ((name) => failpoint(name, "step"));
  const paths = statePaths(options.state_directory);
  const logins = new RegistryLogins();
  const on_lost = (app?: string): void => {
    for (const worker of workers.values()) if (app === undefined || worker.app === app) worker.lookAgain();
  };
  const { artifacts, bundles, containers, engine, executors } = openRuntime(options, { paths, timing, on_step, logins, on_lost });
  const journal = openJournal(paths, log);
  const workers = new Map<string, AppWorker>();
  let desired = options.desired;
  let running = false;
  const configs = new Configs({
    paths,
    clock,
    timing,
    log,
    reporter,
    fetcher,
    on_step,
    on_change: (namespace) => {
      options.on_config?.(namespace);
      for (const app of workers.keys()) {
        bundles.reload(app);
        containers.reload(app);
      }
    },
  });

  const pruneDownloads = (): void => artifacts.prune(wantedArtifacts(workers.values()));

  const workerOf = (app: string): AppWorker => {
    let worker = workers.get(app);
    if (worker === undefined) {
      worker = new AppWorker({
        app,
        journal,
        guard: options.guard,
        keep_versions: (release_ids) => {
          pruneVersions(paths, app, release_ids);
          containers.prune(app, release_ids);
        },
        executors,
        clock,
        timing,
        log,
        reporter,
        on_step,
        on_finished: pruneDownloads,
        permission: options.permission,
        server_time: options.server_time,
        on_change: options.on_app,
      });
      workers.set(app, worker);
      if (running) worker.start();
    }
    return worker;
  };
  const tellWishes = (): void => {
    if (desired === undefined) return;
    for (const app of Object.keys(desired.apps)) workerOf(app);
    for (const [app, worker] of workers) worker.wishFor(wishOf(desired, app));
    configs.desired(desired.configs);
  };

  return {
    get kinds() {
      return executors.filter(({ available }) => available !== false).map(({ kind }) => kind);
    },
    learn: (newer) => logins.learn(newer),
    desired(newer) {
      desired = newer;
      if (running) tellWishes();
    },
    workloads: () =>
      [...workers.values()].map((worker) => worker.workload()).filter((status): status is WorkloadStatus => status !== undefined),
    apps: () => [...workers.values()].map((worker) => worker.status()),
    announce() {
      for (const worker of workers.values()) worker.announce();
      configs.announce();
    },
    async start() {
      await engine.start();
      running = true;
      for (const app of journal.records.keys()) workerOf(app);
      pruneDownloads();
      tellWishes();
      for (const worker of workers.values()) worker.start();
      configs.start();
    },
    async stop() {
      running = false;
      await Promise.all([configs.stop(), ...[...workers.values()].map((worker) => worker.stop())]);
      await Promise.all(executors.map((executor) => executor.close(config.keep_workloads)));
      journal.close();
    },
  };
}

function openJournal(paths: StatePaths, log: Logger): Journal<AppState> {
  const { journal, damaged } = Journal.open<AppState>(paths.journal, ({ app }) => app);
  if (damaged > 0) log.warn({ damaged }, "deployment journal has damaged lines");
  return journal;
}

/** Digests that some work in progress still needs. */
function wantedArtifacts(workers: Iterable<AppWorker>): Set<string> {
  const releases = [...workers].map(({ state }) => state.work?.release);
  return new Set(releases.flatMap((release) => (release ? [release.artifact_sha256] : [])));
}

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
  /** An app's workload is gone; without a name: what any app needs may be there now. */
  on_lost: (app?: string) => void;
}

function openRuntime(
  { clock, log, logs, config, fetcher }: DeploymentsOptions,
  { paths, timing, on_step, logins, on_lost }: RuntimeSeams,
): RuntimeParts {
  for (const directory of [paths.downloads, paths.files, paths.configs, paths.apps]) makeDirectory(directory);
  const artifacts = new ArtifactStore({ directory: paths.downloads, fetcher, clock, timing });
  const runtime: RuntimeOptions = { paths, artifacts, config, clock, timing, log, logs, on_step };
  const bundles = new BundleExecutor(runtime);
  const engine = new Engine({ sockets: config.container_sockets, clock, timing, log, on_answer: () => on_lost() });
  const layers = new LayerStore({ directory: paths.layers, fetcher, clock, timing });
  const containers = new ContainerExecutor({ ...runtime, engine, layers, login: (release_id) => logins.of(release_id), on_lost });
  const files = new FileExecutor({
    ...runtime,
    signal_app: (app, signal) => bundles.signal(app, signal) || containers.signal(app, signal),
  });
  // Bundles last: when an app is removed, the others know what they have only as long as its directory is there.
  return { artifacts, bundles, containers, engine, executors: [containers, files, bundles] };
}

const wishOf = (desired: Desired, app: string): Wish => (Object.hasOwn(desired.apps, app) ? desired.apps[app]! : "absent");
