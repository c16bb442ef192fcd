import type { Agent } from "node:http";
import { type Activity, ByteRate, type Clock, type Timer } from "@roamfleet/clock";
import {
  commonFeatures,
  type Desired,
  type HealthBody,
  type Hello,
  hostOf,
  LINK_FEATURES,
  LINK_PROTOCOLS,
  linkChallengeText,
  type LinkFeature,
  type Progress,
  type StreamSource,
  type Welcome,
} from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import type { RobotKey } from "../identity/robot-key.ts";
import type { LogShipper } from "../logs/shipper.ts";
import { type ChunkQueue, ChunkSender } from "../metrics/chunk-sender.ts";
import type { RobotTime } from "../robot-time.ts";
import type { Outbox } from "../spool/outbox.ts";
import { HealthChanges } from "../health/health-changes.ts";
import { backoffMs, slowMs } from "./backoff.ts";
import { connect, ConnectFailed, type OpenSocket, type TlsSession } from "./connect.ts";
import { type AfterWelcome, Session, type SessionEnd } from "./session.ts";

/** Minimum time that a link must be up for the backoff to start again from its shortest wait. */
const STABLE_MS = 30_000;

export interface LinkOptions {
  server: string;
  /** PEM of the only trusted certificate authority. */
  ca?: string | undefined;
  /** Opens the connections to the server. Absent: each connection uses a new agent. */
  agent?: Agent | undefined;
  /** Opens the socket of each connection, for a process that simulates many robots. */
  open_socket?: OpenSocket;
  robot_id: string;
  key: RobotKey;
  clock: Clock;
  activity: Activity;
  log: Logger;
  /** A log that is not sent to the server. It is for entries about sending logs, which would otherwise cause further entries. */
  local: Logger;
  time: RobotTime;
  outbox: ReportQueue & Pick<Outbox, "outbox_id" | "size" | "reconcile">;
  /** Chunks of samples to send. Absent: the robot collects none. */
  samples?: ChunkQueue | undefined;
  shipper: Pick<LogShipper, "start" | "stop" | "resume" | "acknowledge" | "follow">;
  /** Returns the fields of the `hello` message except the identity; called at each connect. */
  introduce: () => Pick<Hello, "boot_id" | "run_id" | "agent_version" | "platform" | "kinds" | "generation">;
  health: () => Promise<HealthBody>;
  /** Interval of health measurements in seconds, from the robot's config file. Absent: the server's interval. */
  health_seconds?: number | undefined;
  /** Maximum rate of the messages to the server, from the robot's config file. Absent: unlimited. */
  upload_bytes_per_second?: number | undefined;
  /** The handler of each kind of stream that the server may open. */
  sources: ReadonlyMap<string, StreamSource>;
  /** Called after each welcome, to report the running apps to the server. */
  announce: () => void;
  desired: (desired: Desired) => void;
  /** Called when the server has acknowledged a report. */
  on_acknowledged?: () => void;
  /** Called with true when the server has welcomed this robot, and with false and the reason when the link is down. */
  on_connection?: (connected: boolean, reason?: string) => void;
}

/** The robot's end of the link. It connects to the server, and reconnects when the connection is lost. */
export class Link {
  readonly #options: LinkOptions;
  readonly #sources: ReadonlyMap<string, StreamSource>;
  readonly #stopping = new AbortController();
  readonly #reports: ReportSender;
  readonly #samples: ChunkSender | undefined;
  /** Rate limiter of all connections, so that a reconnect does not reset the limit. */
  readonly #upload: ByteRate | undefined;
  #session: Session | undefined;
  #welcomed_at: number | undefined;
  #running: Promise<void> | undefined;
  #last_failure: string | undefined;
  /** Token of the admission slot that an overloaded server reserved for this robot. */
  #slot: string | undefined;
  readonly #tls_session: TlsSession = {};

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#sources = options.sources;
    this.#reports = new ReportSender(options.outbox, options.clock);
    this.#samples = options.samples && new ChunkSender(options.samples, options.clock);
    const { upload_bytes_per_second: upload, clock } = options;
    this.#upload = upload === undefined ? undefined : new ByteRate(upload, clock.monotonic());
  }

  /** True between the welcome and the end of the session. */
  get connected(): boolean {
    return this.#welcomed_at !== undefined;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Closes the link and resolves when the socket is closed. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#session?.close("the agent is stopping");
    await this.#running;
  }

  /** Breaks the current connection without a close frame, like a network failure; the link then reconnects. */
  cut(): void {
    this.#session?.cut("the connection was lost");
  }

  reportAdded(): void {
    this.#reports.pump();
  }

  samplesAdded(): void {
    this.#samples?.pump();
  }

  progress(progress: Omit<Progress, "type">): void {
    this.#session?.send({ type: "progress", ...progress });
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const end = await this.#once().catch((error: unknown) => this.#failed(error));
      if (signal.aborted) break;
      if (end.up_ms >= STABLE_MS) attempt = 0;
      const wait_ms = end.wait_ms ?? (end.slow === true ? slowMs(clock) : backoffMs(clock, attempt));
      this.#logFailure(end, wait_ms);
      await clock.sleep(wait_ms, signal);
    }
  }

  /** Handles an unexpected error of one connection: the link reconnects as after any other failure. */
  #failed(error: unknown): SessionEnd & { up_ms: number } {
    this.#options.log.error({ err: error }, "the link failed unexpectedly");
    this.#session?.cut("the link failed");
    this.#session = undefined;
    this.#welcomed_at = undefined;
    this.#stopSending();
    return { reason: errorText(error), up_ms: 0 };
  }

  async #once(): Promise<SessionEnd & { up_ms: number }> {
    const { server, ca, agent, open_socket, clock, activity, local } = this.#options;
    let session: Session | undefined;
    try {
      await connect({
        server,
        ca,
        agent,
        open_socket,
        clock,
        activity,
        slot: this.#slot,
        tls_session: this.#tls_session,
        signal: this.#stopping.signal,
        on_open: (socket, channel) => {
          const handlers = this.#handlers(channel, () => session);
          session = new Session(socket, { clock, activity, log: local, handlers, sources: this.#sources, upload: this.#upload });
          this.#session = session;
        },
      });
    } catch (error) {
      if (!(error instanceof ConnectFailed)) throw error;
      this.#slot = error.slot;
      return { reason: error.message, wait_ms: error.retry_after_ms, slow: error.slow, up_ms: 0 };
    }
    this.#slot = undefined;
    if (this.#stopping.signal.aborted) session!.close("the agent is stopping");
    const end = await session!.ended;
    const up_ms = this.#welcomed_at === undefined ? 0 : clock.monotonic() - this.#welcomed_at;
    const was_up = this.#welcomed_at !== undefined;
    this.#welcomed_at = undefined;
    if (was_up) this.#options.on_connection?.(false, end.reason);
    this.#session = undefined;
    this.#stopSending();
    return { ...end, up_ms };
  }

  #stopSending(): void {
    this.#reports.stop();
    this.#samples?.stop();
    this.#options.shipper.stop();
  }

  #handlers(channel: string, session: () => Session | undefined): ConstructorParameters<typeof Session>[1]["handlers"] {
    return {
      hello: (nonce) => this.#hello(nonce, channel),
      welcomed: (welcome) => this.#welcomed(session()!, welcome),
      message: (message) => this.#message(message),
      time: (server_time) => this.#options.time.sync(server_time),
      room: () => {
        this.#reports.pump();
        this.#samples?.pump();
        this.#options.shipper.resume();
      },
    };
  }

  async #hello(nonce: string, channel: string): Promise<Hello> {
    const { server, robot_id, key, outbox, introduce } = this.#options;
    return {
      type: "hello",
      protocols: [...LINK_PROTOCOLS],
      robot_id,
      signature: await key.sign(linkChallengeText(robot_id, { nonce, host: hostOf(server), channel })),
      channel,
      outbox_id: outbox.outbox_id,
      streams: [...this.#sources.keys()],
      features: [...LINK_FEATURES],
      ...introduce(),
    };
  }

  #welcomed(session: Session, welcome: Welcome): SessionEnd | undefined {
    const { time, outbox, shipper, log, clock } = this.#options;
    time.sync(welcome.server_time);
    try {
      if (!outbox.reconcile(welcome.acked_seq))
        return { reason: "this state directory is an old copy: its reports continue under a new outbox id", wait_ms: 0 };
    } catch (error) {
      return { reason: `the outbox could not be renamed: ${errorText(error)}` };
    }
    this.#welcomed_at = clock.monotonic();
    this.#options.on_connection?.(true);
    this.#last_failure = undefined;
    log.info(
      { session_id: welcome.session_id, clock_offset_ms: Math.round(time.offset() ?? 0), waiting_reports: outbox.size },
      "link is up",
    );
    this.#reports.start(session, welcome.acked_seq);
    this.#announce();
    const features = commonFeatures(welcome.features);
    const interval_ms = (this.#options.health_seconds ?? welcome.health_seconds) * 1_000;
    const changes = features.includes("health_changes") ? new HealthChanges({ clock, interval_ms }) : undefined;
    const sendHealth = (): Promise<void> => this.#sendHealth(session, features, changes);
    void sendHealth();
    session.every(interval_ms, sendHealth);
    shipper.start(
      { room: () => session.room("logs"), send: (message) => session.sendLogs(message) },
      { acked: welcome.acked_log_seq, flush_ms: welcome.log_flush_ms },
    );
    if (features.includes("samples"))
      this.#samples?.start({ room: () => session.room("control"), send: (message) => session.send(message) });
    return undefined;
  }

  #message(message: AfterWelcome): void {
    switch (message.type) {
      case "desired":
        return this.#options.desired(message);
      case "ack":
        this.#options.on_acknowledged?.();
        return this.#reports.acknowledge(message.seq);
      case "log_ack":
        return this.#options.shipper.acknowledge(message.seq);
      case "samples_ack":
        return this.#samples?.acknowledge(message.spool_id, message.seq);
      case "log_follow":
        return this.#options.shipper.follow(message.on);
      case "challenge":
      case "welcome":
        return this.#options.local.debug({ type: message.type }, "ignored a message that is not expected in this state");
    }
  }

  #announce(): void {
    try {
      this.#options.announce();
    } catch (error) {
      this.#options.log.error({ reason: errorText(error) }, "could not report the installed releases");
    }
  }

  /** Measures health and sends it. With `changes`, sends only what the server does not have yet. */
  async #sendHealth(session: Session, features: readonly LinkFeature[], changes?: HealthChanges): Promise<void> {
    const ended = this.#options.activity.begin();
    try {
      const { ros_adapters, ...snapshot } = await this.#options.health();
      // Send the field only if the server supports it: otherwise the server would close the link.
      const more = features.includes("ros_adapters") && ros_adapters !== undefined ? { ros_adapters } : {};
      const measured = { ...snapshot, ...more };
      const message = changes === undefined ? { snapshot: measured } : changes.next(measured);
      if (message !== undefined && session.send({ type: "health", ...message })) changes?.sent(measured);
    } catch (error) {
      this.#options.log.error({ reason: errorText(error) }, "could not measure health");
    } finally {
      ended();
    }
  }

  /**
   * Logs a failure as a warning, and its repetition at debug level. Otherwise an unreachable server would cause a warning each minute,
   * for weeks.
   */
  #logFailure(end: SessionEnd, wait_ms: number): void {
    const level = end.reason === this.#last_failure ? "debug" : "warn";
    this.#last_failure = end.reason;
    this.#options.log[level]({ reason: end.reason, wait_ms }, end.slow === true ? "the server does not accept this robot" : "link is down");
  }
}

/** Maximum wait for the acknowledgement of a report. After that the report counts as lost, although the link is up, and is sent again. */
const REPORT_ACK_TIMEOUT_MS = 30_000;
const REPORTS_AT_ONCE = 100;
/**
 * Minimum free bytes in the send queue before reports are sent; one report is far smaller. With less, the sender waits until the queue
 * has sent data.
 */
const ROOM_BYTES_MIN = 64 * 1024;

/** The methods of an outbox that sending needs. Simulated robots implement them in memory. */
type ReportQueue = Pick<Outbox, "after" | "acknowledge">;

/** Sends the outbox's reports in order over the current session, and resends reports that are not acknowledged. */
class ReportSender {
  readonly #outbox: ReportQueue;
  readonly #clock: Clock;
  #session: Session | undefined;
  #sent = 0;
  #acked = 0;
  #timeout: Timer | undefined;

  constructor(outbox: ReportQueue, clock: Clock) {
    this.#outbox = outbox;
    this.#clock = clock;
  }

  start(session: Session, acked_seq: number): void {
    this.stop();
    this.#session = session;
    this.#acked = acked_seq;
    this.#sent = acked_seq;
    this.pump();
  }

  stop(): void {
    this.#session = undefined;
    this.#timeout?.cancel();
  }

  acknowledge(seq: number): void {
    if (seq <= this.#acked) return;
    this.#acked = seq;
    this.#sent = Math.max(this.#sent, seq);
    this.#outbox.acknowledge(seq);
    this.#watchAck();
  }

  /** Sends unsent reports while the send queue has room. */
  pump(): void {
    const session = this.#session;
    if (session === undefined) return;
    const idle = this.#sent === this.#acked;
    while (this.#sendSome(session));
    if (idle) this.#watchAck();
  }

  /** Sends one batch of reports. Returns whether there may be more to send now. */
  #sendSome(session: Session): boolean {
    if (session.room("control") < ROOM_BYTES_MIN) return false;
    const reports = this.#outbox.after(this.#sent, REPORTS_AT_ONCE);
    for (const report of reports) {
      if (!session.send(report)) return false;
      this.#sent = report.seq;
    }
    return reports.length > 0;
  }

  #watchAck(): void {
    this.#timeout?.cancel();
    if (this.#sent === this.#acked) return;
    this.#timeout = this.#clock.setTimer(REPORT_ACK_TIMEOUT_MS, () => {
      this.#sent = this.#acked;
      this.pump();
    });
  }
}
