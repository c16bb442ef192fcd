import { ByteRate } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { Desired } from "@roamfleet/protocol/link";
import { configFiles, Configs, type ConfigState } from "../configs/configs.ts";
import type {
  AppPlace,
  AppStatus,
  Deployments,
  DeploymentsOptions,
  Logger,
  ScrapeTarget,
  StopOptions,
  WorkloadStatus,
} from "../contract.ts";
import { type Timing, TIMING } from "../runtime/limits.ts";
import { type StatePaths, statePaths } from "../runtime/paths.ts";
import { pruneVersions } from "../runtime/staged-versions.ts";
import { Journal } from "./journal.ts";
import type { AppState } from "./state.ts";
import { AppWorker } from "./worker.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { ArtifactStore, LayerStore } from "../runtime/artifact-store.ts";
import { BundleExecutor, type RuntimeOptions } from "../runtime/bundle.ts";
import { ContainerExecutor } from "../runtime/docker/container-executor.ts";
import { Engine } from "../runtime/docker/engine.ts";
import type { Executor } from "../runtime/executor.ts";
import { FileExecutor } from "../runtime/file.ts";
import { OsImageExecutor } from "../os-image/os-image-executor.ts";
import type { RegistryLogin } from "../runtime/docker/images.ts";
import { AgentExecutor } from "../self-update/agent-executor.ts";

export interface DeploymentsTuning {
  timing?: Partial<Timing>;
  /** Called between any two side effects with the name of that point, so that tests can crash there. */
  on_step?: (name: string) => void;
}

export const createDeployments = (options: DeploymentsOptions, tuning: DeploymentsTuning = {}): Deployments =>
  new RobotDeployments(options, tuning);

/** Brings the robot's apps and configs to their desired state, and keeps them running while the server is unreachable. */
class RobotDeployments implements Deployments {
  readonly #options: DeploymentsOptions;
  readonly #timing: Timing;
  readonly #on_step: (name: string) => void;
  readonly #paths: StatePaths;
  readonly #artifacts: ArtifactStore;
  readonly #engine: Engine;
  readonly #images: OsImageExecutor;
  readonly #executors: readonly Executor[];
  readonly #journal: Journal<AppState>;
  readonly #config_journal: Journal<ConfigState>;
  readonly #configs: Configs;
  readonly #workers = new Map<string, AppWorker>();
  #desired: Desired | undefined;
  #running = false;
  /** Registry logins by release id. The server sends them with each desired state; they are kept in memory only. */
  #logins: ReadonlyMap<string, RegistryLogin> = new Map();

  constructor(options: DeploymentsOptions, tuning: DeploymentsTuning) {
    const { clock, log, logs, config, fetcher, reporter, guard, desired, state_directory } = options;
    const timing = { ...TIMING, ...tuning.timing };
    const on_step = tuning.on_step ?? ((name: string): void => failpoint(name, "step"));
    const paths = statePaths(state_directory);
    for (const directory of [paths.downloads, paths.files, paths.configs, paths.apps]) makeDirectory(directory);
    this.#options = options;
    this.#timing = timing;
    this.#on_step = on_step;
    this.#paths = paths;
    this.#desired = desired;
    const { download_bytes_per_second: limit } = config.robot.network;
    const rate = limit === undefined ? undefined : new ByteRate(limit, clock.monotonic());
    this.#artifacts = new ArtifactStore({ directory: paths.downloads, fetcher, clock, timing, rate });
    this.#engine = new Engine({ sockets: config.container_sockets, clock, timing, log, on_answer: () => this.#lookAgain() });
    const layers = new LayerStore({ directory: paths.layers, fetcher, clock, timing, rate });
    const on_lost = (app: string): void => this.#lookAgain(app);
    const requires_signature = (): boolean => guard?.requires_signature === true;
    const shared = { paths, config, clock, timing, log, logs, on_step, on_lost, requires_signature };
    const runtime: RuntimeOptions = { ...shared, artifacts: this.#artifacts };
    const login = (release_id: string): RegistryLogin | undefined => this.#logins.get(release_id);
    const bundles = new BundleExecutor(runtime);
    const containers = new ContainerExecutor({ ...runtime, engine: this.#engine, layers, login });
    const signal_app = (app: string, signal: NodeJS.Signals): boolean => bundles.signal(app, signal) || containers.signal(app, signal);
    const connected = options.connected ?? ((): boolean => true);
    const probe_app = async (app: string) => this.#workers.get(app)?.probe();
    this.#images = new OsImageExecutor({ ...runtime, connected, workloads: () => this.workloads(), probe_app });
    // Executors in the order in which they remove an app. Bundles come last: their executor deletes the app's directory, which contains the
    // data of the other executors.
    const agents = options.self_update === undefined ? [] : [new AgentExecutor({ ...runtime, ...options.self_update })];
    this.#executors = [...agents, containers, new FileExecutor({ ...runtime, signal_app }), this.#images, bundles];
    this.#journal = openJournal<AppState>(paths.journal, ({ app }) => app, log);
    this.#config_journal = openJournal<ConfigState>(paths.config_journal, ({ namespace }) => namespace, log);
    const on_change = (namespace: string): void => this.#configChanged(namespace);
    const files = configFiles(paths, config.workload_user === undefined ? 0o600 : 0o640);
    this.#configs = new Configs({ journal: this.#config_journal, files, clock, timing, log, reporter, fetcher, on_step, on_change });
  }

  get kinds(): string[] {
    return this.#executors.filter(({ available }) => available !== false).map(({ kind }) => kind);
  }

  learn({ apps }: Desired): void {
    const releases = Object.values(apps).flatMap(({ release }) => (release === null ? [] : [release]));
    this.#logins = new Map(releases.flatMap(({ id, registry_auth }) => (registry_auth ? [[id, registry_auth] as const] : [])));
  }

  desired(desired: Desired): void {
    this.#desired = desired;
    if (this.#running) this.#applyDesired();
  }

  workloads(): WorkloadStatus[] {
    return [...this.#workers.values()].flatMap((worker) => worker.workload() ?? []);
  }

  apps(): AppStatus[] {
    return [...this.#workers.values()].map((worker) => worker.status());
  }

  place(app: string): AppPlace | undefined {
    return this.#executors.map((executor) => executor.place?.(app)).find((place) => place !== undefined);
  }

  scrape_targets(): ScrapeTarget[] {
    return [...this.#workers.keys()].flatMap((app) => {
      const url = this.#executors.map((executor) => executor.metrics_url?.(app)).find((one) => one !== undefined);
      return url === undefined ? [] : [{ app, url }];
    });
  }

  announce(): void {
    for (const worker of this.#workers.values()) worker.announce();
    this.#configs.announce();
  }

  async start(): Promise<void> {
    await this.#engine.start();
    this.#running = true;
    for (const app of this.#journal.records.keys()) this.#worker(app);
    this.#pruneDownloads();
    this.#images.abandonUnless([...this.#workers.values()].map(({ state }) => state.work?.release?.id ?? ""));
    this.#applyDesired();
    for (const worker of this.#workers.values()) worker.start();
    this.#configs.start();
  }

  async stop({ is_replaced }: StopOptions = { is_replaced: false }): Promise<void> {
    this.#running = false;
    const keep_workloads = is_replaced || !this.#options.config.stop_workloads;
    await Promise.all([this.#configs.stop(), ...[...this.#workers.values()].map((worker) => worker.stop())]);
    await Promise.all(this.#executors.map((executor) => executor.close(keep_workloads)));
    this.#journal.close();
    this.#config_journal.close();
  }

  #applyDesired(): void {
    const desired = this.#desired;
    if (desired === undefined) return;
    for (const app of Object.keys(desired.apps)) this.#worker(app);
    for (const [app, worker] of this.#workers) worker.setDesired(Object.hasOwn(desired.apps, app) ? desired.apps[app]! : "absent");
    this.#configs.desired(desired.configs);
  }

  #worker(app: string): AppWorker {
    const known = this.#workers.get(app);
    if (known !== undefined) return known;
    const worker = new AppWorker({
      ...this.#options,
      app,
      journal: this.#journal,
      executors: this.#executors,
      timing: this.#timing,
      on_step: this.#on_step,
      keep_versions: (release_ids) => {
        pruneVersions(this.#paths, app, release_ids);
        for (const executor of this.#executors) executor.prune?.(app, release_ids);
      },
      on_finished: () => this.#pruneDownloads(),
      on_change: this.#options.on_app,
    });
    this.#workers.set(app, worker);
    if (this.#running) worker.start();
    return worker;
  }

  #pruneDownloads(): void {
    const releases = [...this.#workers.values()].map(({ state }) => state.work?.release);
    this.#artifacts.prune(new Set(releases.flatMap((release) => (release ? [release.artifact_sha256] : []))));
  }

  /**
   * Wakes the worker of an app whose workload has disappeared. Without a name, wakes all workers: the container engine is reachable again,
   * and any app may need the engine.
   */
  #lookAgain(app?: string): void {
    for (const worker of this.#workers.values()) if (app === undefined || worker.app === app) worker.lookAgain();
  }

  #configChanged(namespace: string): void {
    this.#options.on_config?.(namespace);
    for (const app of this.#workers.keys()) for (const executor of this.#executors) executor.reload?.(app);
  }
}

function openJournal<T>(file: string, key: (record: T) => string, log: Logger): Journal<T> {
  const { journal, damaged } = Journal.open(file, key);
  if (damaged > 0) log.warn({ damaged, file }, "a journal has damaged lines");
  return journal;
}
