import {
  AppWorker,
  type Artifact,
  Configs,
  type Executor,
  type Fetcher,
  type HttpClient,
  Link,
  type LinkOptions,
  type Logger,
  LogShipper,
  type OpenSocket,
  readPlatform,
  type Reporter,
  RobotTime,
  signedFetcher,
  type StageIo,
  TIMING,
} from "@roamfleet/agent/parts";
import { type Clock, idleActivity } from "@roamfleet/clock";
import type { Desired, DesiredRelease, ReportBody } from "@roamfleet/protocol/link";
import { SimulatedAgentExecutor } from "./agent-executor.ts";
import { healthOf } from "./health.ts";
import { type StoredRobot, robotKey } from "./robot-file.ts";
import { memoryConfigFiles, MemoryLogSpool, MemoryOutbox } from "./memory.ts";
import { RobotSamples, type SampleOptions } from "./samples.ts";
import type { Tally } from "./tally.ts";
import { fetchAndCheck, KINDS, type RuntimeOptions, simulatedExecutors } from "./runtime.ts";

/** State shared by the robots of a swarm. */
export interface FleetShared {
  server: string;
  ca: string | undefined;
  open_socket: OpenSocket;
  clock: Clock;
  log: Logger;
  http: HttpClient;
  tally: Tally;
  /** Random id of this run of the swarm. It is part of the ids of the robots' outboxes, which start empty in each run. */
  run_id: string;
  agent_version: string;
  real_time: boolean;
  /** Metrics that each robot sends; undefined: none. */
  samples: SampleOptions | undefined;
  /** Duration of a step in milliseconds, randomized on each call. */
  delay: () => number;
  /**
   * Returns whether an install fails its verification. `install` counts the installs of robot `number`. `first`: it is the first release of
   * the app.
   */
  isUnwell: (robot: { number: number; install: number; first: boolean }) => boolean;
  /** Downloads an artifact by calling `own`, either for each robot or once for all robots. */
  fetchArtifact: (artifact: Artifact, io: StageIo, own: () => Promise<void>) => Promise<void>;
  /** Called when the state that a real robot would store on disk has changed. */
  keep: (robot: StoredRobot) => void;
}

/**
 * A robot of a swarm: the agent's link, session, report order, plan, worker and download, with memory instead of a disk, and a runtime that
 * only records what would run.
 */
export class FleetRobot {
  readonly stored: StoredRobot;
  /** Metrics of the robot; undefined: it sends none. */
  readonly samples: RobotSamples | undefined;
  readonly #shared: FleetShared;
  readonly #outbox: MemoryOutbox;
  readonly #spool: MemoryLogSpool;
  readonly #shipper: LogShipper;
  readonly #time: RobotTime;
  readonly #fetcher: Fetcher;
  readonly #link: Link;
  readonly #workers = new Map<string, AppWorker>();
  readonly #reporter: Reporter = { report: (body) => this.#report(body), progress: (progress) => this.#link.progress(progress) };
  readonly #configs: Configs;
  readonly #agent: SimulatedAgentExecutor;
  readonly #executors: Executor[];
  #desired: Desired | undefined;

  constructor(shared: FleetShared, stored: StoredRobot) {
    const { server, ca, open_socket, clock, log, http } = shared;
    this.#shared = shared;
    this.stored = stored;
    const key = robotKey(Buffer.from(stored.key, "base64"));
    const time = new RobotTime(clock);
    this.#time = time;
    this.#outbox = new MemoryOutbox(`swarm-${shared.run_id}-${stored.number}`);
    this.#spool = new MemoryLogSpool(clock);
    this.#shipper = new LogShipper(this.#spool, clock);
    this.#fetcher = signedFetcher({ server, robot_id: stored.robot_id, key, time, http });
    const runtime: RuntimeOptions = {
      clock,
      real_time: shared.real_time,
      delay: shared.delay,
      staging: (app, release) => this.#staging(app, release),
      fetch: (artifact, io) => shared.fetchArtifact(artifact, io, () => this.#fetch(artifact, io)),
      isUnwell: (app, { id }) => shared.isUnwell({ number: stored.number, install: stored.installs, first: stored.first[app] === id }),
      log: (app, message) => this.#say(app, message),
    };
    this.#agent = new SimulatedAgentExecutor({ ...runtime, restarted: () => this.cut() });
    this.#executors = [...simulatedExecutors(runtime), this.#agent];
    this.#configs = new Configs({
      journal: { records: new Map(), append: () => {} },
      files: memoryConfigFiles(),
      clock,
      timing: TIMING,
      log,
      reporter: this.#reporter,
      fetcher: this.#fetcher,
      on_change: () => {},
      on_step: () => {},
    });
    const spool_id = `swarm-${shared.run_id}-${stored.number}`;
    const added = (): void => this.#link.samplesAdded();
    if (shared.samples !== undefined)
      this.samples = new RobotSamples({
        number: stored.number,
        spool_id,
        options: shared.samples,
        server_time: () => time.serverTime(),
        added,
        clock,
        log,
      });
    this.#link = this.#makeLink({ server, ca, open_socket, clock, log, key, time });
  }

  get connected(): boolean {
    return this.#link.connected;
  }

  /** Resumes the robot's previous state and connects. The link reconnects automatically until `stop`. */
  start(): void {
    for (const app of Object.keys(this.stored.apps)) this.#workerOf(app);
    this.#link.start();
    this.samples?.start();
  }

  /** Drops the link without a close message; it reconnects automatically. */
  cut(): void {
    this.#link.cut();
  }

  async stop(): Promise<void> {
    this.samples?.stop();
    await Promise.all([this.#configs.stop(), ...[...this.#workers.values()].map((worker) => worker.stop())]);
    await this.#link.stop();
  }

  #report(body: ReportBody): void {
    this.#outbox.add(body, this.#shared.clock.now().toISOString());
    this.#shared.tally.reported(this.stored.number, body);
    if (body.kind === "app")
      this.#shared.tally.runs(this.stored.number, body.app, this.#workers.get(body.app)?.workload()?.release_tag ?? undefined);
    this.#link.reportAdded();
  }

  #makeLink(parts: Pick<LinkOptions, "server" | "ca" | "open_socket" | "clock" | "log" | "key" | "time">): Link {
    const { agent_version, run_id } = this.#shared;
    const { number, robot_id, name } = this.stored;
    const boot_id = `swarm-${run_id}`;
    return new Link({
      ...parts,
      local: parts.log,
      robot_id,
      activity: idleActivity,
      outbox: this.#outbox,
      shipper: this.#shipper,
      samples: this.samples?.queue,
      introduce: () => ({
        boot_id,
        run_id: `${run_id}-${number}`,
        agent_version: this.#agent.version ?? agent_version,
        platform: { ...readPlatform("/"), hostname: name.slice(0, 255) },
        kinds: [...KINDS, this.#agent.kind],
        generation: this.#desired?.generation ?? 0,
      }),
      health: () => Promise.resolve(healthOf(parts.clock, boot_id, this.#workloads())),
      sources: new Map(),
      announce: () => this.#announce(),
      desired: (desired) => this.#take(desired),
    });
  }

  #workloads(): ReturnType<typeof healthOf>["workloads"] {
    return [...this.#workers.values()].flatMap((worker) => worker.workload() ?? []);
  }

  #announce(): void {
    for (const worker of this.#workers.values()) worker.announce();
    this.#configs.announce();
  }

  #take(desired: Desired): void {
    if (desired.generation > (this.#desired?.generation ?? 0)) {
      this.#desired = desired;
      for (const app of Object.keys(desired.apps)) this.#workerOf(app);
      for (const [app, worker] of this.#workers) worker.setDesired(desired.apps[app] ?? "absent");
      this.#configs.desired(desired.configs);
    }
    this.#report({ kind: "observed", generation: this.#desired?.generation ?? 0 });
  }

  #workerOf(app: string): AppWorker {
    const known = this.#workers.get(app);
    if (known !== undefined) return known;
    const { clock, log } = this.#shared;
    const worker = new AppWorker({
      app,
      journal: this.#journal(),
      keep_versions: () => {},
      executors: this.#executors,
      server_time: () => this.#time.serverTime(),
      clock,
      timing: TIMING,
      log,
      reporter: this.#reporter,
      on_finished: () => {},
      on_step: () => {},
    });
    this.#workers.set(app, worker);
    worker.start();
    return worker;
  }

  /** Returns an in-memory journal with the newest record of each app. The agent stores its journal on disk. */
  #journal(): ConstructorParameters<typeof AppWorker>[0]["journal"] {
    return {
      records: new Map(Object.entries(this.stored.apps)),
      append: (state) => {
        this.stored.apps[state.app] = state;
        this.#shared.keep(this.stored);
      },
    };
  }

  #staging(app: string, release: DesiredRelease): void {
    this.stored.installs += 1;
    this.stored.first[app] ??= release.id;
    this.#shared.keep(this.stored);
  }

  async #fetch(artifact: Artifact, io: StageIo): Promise<void> {
    const { clock, tally } = this.#shared;
    await fetchAndCheck(artifact, { ...io, fetcher: this.#fetcher, clock });
    tally.downloads += 1;
    tally.downloaded_bytes += artifact.size;
  }

  #say(app: string, message: string): void {
    this.#spool.append("info", app, message);
    this.#shipper.recordAdded();
  }
}
