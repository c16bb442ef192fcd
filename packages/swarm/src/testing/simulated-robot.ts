import type { Timer } from "@roamfleet/clock";
import {
  type Desired,
  type DesiredRelease,
  encodeChunk,
  type HealthBody,
  type Hello,
  hostOf,
  LINK_PROTOCOLS,
  type LogLevel,
  type LogRecordBody,
  type Report,
  type ReportBody,
  type ServerMessage,
  type Welcome,
} from "@roamfleet/protocol/link";
import { healthOf } from "../health.ts";
import { MemoryOutbox } from "../memory.ts";
import { AppRunner, type Behavior, type AppHost } from "./app-runner.ts";
import { ConfigRunner, type ConfigHost } from "./config-runner.ts";
import { answerChallenge, authorizeGet, enroll, type Enrolled, type EnrollOptions, type Identity, makeIdentity } from "./identity.ts";
import { RobotLink } from "./robot-link.ts";
import { type Member, Swarm, type SwarmOptions } from "./swarm.ts";

export interface RobotOptions extends EnrollOptions {
  /** Behavior of the robot for releases without a specific behavior. */
  behavior?: Behavior | undefined;
  /** Release kinds that the robot announces as installable. */
  kinds?: readonly string[] | undefined;
}

const KINDS = ["app_bundle", "file"];
/** Number of received desired states kept for tests. */
const RECEIVED_MAX = 100;
const LOG_RECORDS_WAITING_MAX = 10_000;
const RECONNECT_FIRST_MS = 1_000;
const RECONNECT_LAST_MS = 60_000;

/** A robot that uses the real protocol over a real WebSocket and only simulates installs. */
export class SimulatedRobot implements Member, AppHost, ConfigHost {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  readonly identity: Identity;
  readonly kinds: readonly string[];
  /** The desired states received, in order. */
  readonly received: Desired[] = [];
  readonly #swarm: Swarm;
  readonly #outbox: MemoryOutbox;
  readonly #apps = new Map<string, AppRunner>();
  readonly #configs = new Map<string, ConfigRunner>();
  readonly #behaviors = new Map<string, Behavior>();
  readonly #arch: string;
  #behavior: Behavior;
  #link: RobotLink | undefined;
  #desired: Desired | undefined;
  #server_offset_ms = 0;
  /** Number of the last chunk of samples. */
  #samples = 0;
  #boot = 1;
  #wants_link = false;
  #failures = 0;
  #retry: Timer | undefined;
  #logs: LogRecordBody[] = [];
  #last_log_seq = 0;

  /** Creates a robot that is already enrolled. */
  constructor(swarm: Swarm, identity: Identity, enrolled: Enrolled, options: Pick<RobotOptions, "behavior" | "kinds" | "arch"> = {}) {
    this.#swarm = swarm;
    this.id = enrolled.robot_id;
    this.org_id = enrolled.org_id;
    this.name = enrolled.name;
    this.identity = identity;
    this.kinds = options.kinds ?? KINDS;
    this.#arch = options.arch ?? "x64";
    this.#behavior = options.behavior ?? {};
    this.#outbox = new MemoryOutbox(`outbox-${this.id}`);
    swarm.robots.add(this);
  }

  /** Creates a key, enrolls with it and returns the robot, not yet connected. Throws EnrollmentFailed. */
  static async enroll(swarm: Swarm, options: RobotOptions): Promise<SimulatedRobot> {
    const identity = makeIdentity();
    return new SimulatedRobot(swarm, identity, await enroll(swarm, identity, options), options);
  }

  get clock(): Swarm["clock"] {
    return this.#swarm.clock;
  }

  get connected(): boolean {
    return this.#link?.up ?? false;
  }

  /** Reports that the server has not acknowledged. */
  get unacknowledged(): readonly Report[] {
    return this.#outbox.waiting;
  }

  /** Tag of the release that an app runs; undefined: none. */
  runs(app = "main"): string | undefined {
    return this.#apps.get(app)?.state.current?.tag;
  }

  /** The config file of a namespace as text; undefined if absent. */
  config(namespace = "default"): string | undefined {
    return this.#configs.get(namespace)?.content;
  }

  /** Changes a config file manually. */
  editConfig(namespace: string, content: string): void {
    this.#configOf(namespace).edit(content);
  }

  /** Sets the behavior for the release with this tag or id; without `release`, for all other releases. */
  behave(behavior: Behavior, release?: string): void {
    if (release === undefined) this.#behavior = behavior;
    else this.#behaviors.set(release, behavior);
  }

  behaviorOf({ id, tag }: DesiredRelease): Behavior {
    return this.#behaviors.get(id) ?? this.#behaviors.get(tag) ?? this.#behavior;
  }

  /** Opens the link and resolves when the server has welcomed the robot; rejects otherwise. */
  async connect(): Promise<void> {
    this.#wants_link = true;
    await this.#open();
  }

  /** Closes the link gracefully. Events while disconnected are reported after the next connect. */
  async disconnect(): Promise<void> {
    this.#wants_link = false;
    this.#retry?.cancel();
    await this.#link?.close();
  }

  /** Simulates a power failure: the link breaks without a close message. After the restart, current work resumes where it was. */
  async restart(): Promise<void> {
    this.#wants_link = false;
    await this.#link?.terminate();
    this.#boot += 1;
    for (const app of this.#apps.values()) app.resume();
    await this.connect();
  }

  /** Stops the robot permanently. */
  async close(): Promise<void> {
    this.#swarm.robots.delete(this);
    for (const app of this.#apps.values()) app.stop();
    await this.disconnect();
  }

  /** Resolves when everything sent before, in either direction, has been received. */
  async barrier(): Promise<void> {
    await this.#link?.barrier();
  }

  beat(): void {
    this.#link?.ping();
  }

  /** Sends one sample of each metric, taken now. */
  sendSamples(values: Readonly<Record<string, number>>): void {
    const times = [this.clock.now().getTime()];
    const series = Object.entries(values).map(([name, value]) => ({ name, labels: {}, times, values: [value] }));
    this.#samples += 1;
    this.#link?.send({
      type: "samples",
      spool_id: `spool-${this.name}`,
      seq: this.#samples,
      chunk: encodeChunk(series).toString("base64"),
    });
  }

  sendHealth(changes: Partial<ReturnType<typeof healthOf>> = {}): void {
    if (this.connected)
      this.#link?.send({
        type: "health",
        snapshot: { ...healthOf(this.clock, `boot-${this.#boot}`, this.#workloads()), ...changes },
      });
  }

  #workloads(): HealthBody["workloads"] {
    return [...this.#apps.values()].flatMap(({ app, state: { current } }) =>
      current === null ? [] : [{ app, kind: current.kind, status: "running", restarts: 0, release_tag: current.tag }],
    );
  }

  /** Appends to the robot's log and sends it if connected. */
  log(message: string, options: { level?: LogLevel; source?: string; fields?: Record<string, unknown> } = {}): void {
    const { level = "info", source = "main", fields = {} } = options;
    const record: LogRecordBody = { seq: (this.#last_log_seq += 1), at: this.clock.now().toISOString(), level, source, message, fields };
    this.#logs.push(record);
    if (this.#logs.length > LOG_RECORDS_WAITING_MAX) this.#logs.shift();
    if (this.connected) this.#link?.send({ type: "logs", records: [record] });
  }

  /** Appends to the outbox and sends it if connected; tests use it to report what no real robot would report. */
  report(body: ReportBody): void {
    const report = this.#outbox.add(body, this.clock.now().toISOString());
    if (this.connected) this.#link?.send(report);
  }

  /** Sends a report again, as after a lost acknowledgement. */
  repeat(report: Report): void {
    if (this.connected) this.#link?.send(report);
  }

  progress(target_id: string, attempt: number, bytes_done: number, bytes_total: number): void {
    if (this.connected) this.#link?.send({ type: "progress", target_id, attempt, bytes_done, bytes_total });
  }

  loseLink(): void {
    void this.disconnect();
  }

  /** Sends a signed GET, for example for an artifact. The server refuses it over TLS, since `fetch` exposes no channel to sign for. */
  async get(path: string): Promise<Response> {
    const at = this.clock.now().getTime() + this.#server_offset_ms;
    const end = this.#swarm.activity.begin();
    try {
      return await this.#swarm.fetch(this.#swarm.url + path, {
        headers: { authorization: authorizeGet(this.identity, this.id, { url: this.#swarm.url, path, at }) },
      });
    } finally {
      end();
    }
  }

  async fetchConfig(namespace: string): Promise<string> {
    const end = this.#swarm.activity.begin();
    try {
      const response = await this.get(`/agent/configs/${encodeURIComponent(namespace)}`);
      if (response.status !== 200) throw new Error(`the server returned ${response.status}`);
      return await response.text();
    } finally {
      end();
    }
  }

  async #open(): Promise<void> {
    this.#retry?.cancel();
    await this.#link?.close();
    this.#link = new RobotLink(this.#swarm, {
      hello: (nonce, channel) => this.#hello(nonce, channel),
      message: (message) => this.#take(message),
      closed: () => this.#closed(),
    });
    await this.#link.welcomed;
  }

  #closed(): void {
    this.#link = undefined;
    if (!this.#wants_link || !this.#swarm.reconnects || this.#swarm.stopped) return;
    const ceiling_ms = Math.min(RECONNECT_LAST_MS, RECONNECT_FIRST_MS * 2 ** Math.min(this.#failures, 10));
    this.#failures += 1;
    this.#retry = this.clock.setTimer(this.clock.random() * ceiling_ms, () => void this.#open().catch(() => {})); // A `close` event follows.
  }

  #hello(nonce: string, channel: string): Hello {
    return {
      type: "hello",
      protocols: [...LINK_PROTOCOLS],
      robot_id: this.id,
      signature: answerChallenge(this.identity, this.id, { nonce, host: hostOf(this.#swarm.url), channel }),
      channel,
      boot_id: `boot-${this.#boot}`,
      run_id: `run-${this.#boot}`,
      outbox_id: this.#outbox.outbox_id,
      agent_version: "0.1.0-simulated",
      platform: { os: "Simulated", arch: this.#arch, hostname: this.name, kernel: "0" },
      kinds: [...this.kinds],
      streams: [],
      generation: this.#desired?.generation ?? 0,
    };
  }

  #take(message: ServerMessage): void {
    switch (message.type) {
      case "welcome":
        return this.#welcomed(message);
      case "desired":
        return this.#wish(message);
      case "ack":
        return this.#outbox.acknowledge(message.seq);
      case "log_ack":
        this.#logs = this.#logs.filter(({ seq }) => seq > message.seq);
        return;
      case "samples_ack":
      case "challenge":
      case "refused":
      case "log_follow":
    }
  }

  #welcomed({ server_time, acked_seq, acked_log_seq }: Welcome): void {
    this.#failures = 0;
    this.#server_offset_ms = server_time - this.clock.now().getTime();
    this.#outbox.acknowledge(acked_seq);
    for (const report of this.#outbox.waiting) this.#link?.send(report);
    this.#logs = this.#logs.filter(({ seq }) => seq > acked_log_seq);
    for (const record of this.#logs) this.#link?.send({ type: "logs", records: [record] });
    for (const app of this.#apps.values()) app.announce();
    for (const config of this.#configs.values()) config.announce();
  }

  #wish(desired: Desired): void {
    this.received.push(desired);
    if (this.received.length > RECEIVED_MAX) this.received.shift();
    if (desired.generation <= (this.#desired?.generation ?? 0)) return;
    this.#desired = desired;
    this.report({ kind: "observed", generation: desired.generation });
    for (const app of Object.keys(desired.apps)) this.#appOf(app);
    for (const [app, runner] of this.#apps) runner.wishFor(desired.apps[app] ?? "absent");
    for (const [namespace, wish] of Object.entries(desired.configs)) this.#configOf(namespace).wishFor(wish);
  }

  #appOf(app: string): AppRunner {
    const known = this.#apps.get(app);
    if (known !== undefined) return known;
    const made = new AppRunner(app, this);
    this.#apps.set(app, made);
    return made;
  }

  #configOf(namespace: string): ConfigRunner {
    const known = this.#configs.get(namespace);
    if (known !== undefined) return known;
    const made = new ConfigRunner(namespace, this);
    this.#configs.set(namespace, made);
    return made;
  }
}

export interface StartSwarmOptions extends SwarmOptions, Pick<RobotOptions, "key" | "labels" | "behavior" | "kinds"> {
  count: number;
  /** Prefix of the robots' names; a number follows it. Default: `sim`. */
  name_prefix?: string;
  /** Robots that enroll and connect concurrently; default 32. */
  parallel?: number;
  /** Milliseconds between two health snapshots of each robot; default: none are sent. */
  health_ms?: number;
  /** Called after each robot has connected. */
  on_connected?: (connected: number) => void;
}

export interface RunningSwarm {
  swarm: Swarm;
  robots: SimulatedRobot[];
  stop(): Promise<void>;
}

/** Enrolls `count` robots with one key and connects them; they reconnect automatically until stopped. Throws if one fails. */
export async function startSwarm(options: StartSwarmOptions): Promise<RunningSwarm> {
  const { count, name_prefix = "sim", parallel = 32, health_ms, on_connected } = options;
  const swarm = new Swarm({ reconnects: true, ...options });
  const robots: SimulatedRobot[] = [];
  const connected: SimulatedRobot[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const number = (next += 1);
      const robot = await SimulatedRobot.enroll(swarm, { ...options, name: `${name_prefix}-${number}` });
      robots.push(robot);
      await robot.connect();
      connected.push(robot);
      on_connected?.(connected.length);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(parallel, count) }, work));
  } catch (error) {
    next = count;
    await swarm.stop();
    throw error;
  }
  if (health_ms !== undefined) swarm.sendHealthEvery(health_ms);
  return { swarm, robots, stop: () => swarm.stop() };
}
