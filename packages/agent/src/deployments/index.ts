import { failpoint } from "@robofleet/clock/failpoint";
import type { Desired } from "@robofleet/protocol/link";
import { Configs } from "../configs/index.ts";
import type { Deployments, DeploymentsOptions, Logger, WorkloadStatus } from "../contract.ts";
import { ArtifactStore } from "../runtime/artifact-store.ts";
import { BundleExecutor, type RuntimeOptions } from "../runtime/bundle.ts";
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
  const { artifacts, bundles, executors } = openRuntime(options, paths, timing, on_step);
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
      for (const app of workers.keys()) bundles.reload(app);
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
        keep_versions: (release_ids) => pruneVersions(paths, app, release_ids),
        executors,
        clock,
        timing,
        log,
        reporter,
        on_step,
        on_finished: pruneDownloads,
        permission: options.permission,
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
    kinds: executors.map(({ kind }) => kind),
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

function openRuntime(
  { clock, log, logs, config, fetcher }: DeploymentsOptions,
  paths: StatePaths,
  timing: Timing,
  on_step: (name: string) => void,
): { artifacts: ArtifactStore; bundles: BundleExecutor; executors: Executor[] } {
  for (const directory of [paths.downloads, paths.files, paths.configs, paths.apps]) makeDirectory(directory);
  const artifacts = new ArtifactStore({ directory: paths.downloads, fetcher, clock, timing });
  const runtime: RuntimeOptions = { paths, artifacts, config, clock, timing, log, logs, on_step };
  const bundles = new BundleExecutor(runtime);
  const files = new FileExecutor({ ...runtime, signal_app: (app, signal) => bundles.signal(app, signal) });
  // Files first: when an app is removed, they know their places only as long as its directory is there.
  return { artifacts, bundles, executors: [files, bundles] };
}

const wishOf = (desired: Desired, app: string): Wish => (Object.hasOwn(desired.apps, app) ? desired.apps[app]! : "absent");
