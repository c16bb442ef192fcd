import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Activity, Clock, IdSource, Timer } from "@roamfleet/clock";
import {
  commonProtocol,
  CONTROL_CHANNEL,
  decodeFrame,
  describeNoProtocol,
  FrameType,
  type Hello,
  LINK_PROTOCOLS,
  LINK_SLOT_HEADER,
  LINK_SUBPROTOCOL,
  type Refused,
  type SendQueue,
  type SendQueueOptions,
  type ServerMessage,
} from "@roamfleet/protocol/link";
import type { RobotMessage } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { type WebSocket, WebSocketServer } from "ws";
import { type BoundChannel, networkOf } from "../kernel/networks.ts";
import { AddressShares, AdmissionQueue } from "./admission-queue.ts";
import { closeHalfOpen } from "./close-half-open.ts";
import type { ExpectedChallenge, Link, LinkHandlers, LinkSettings, Session } from "./contract.ts";
import { parseMessage, storableText } from "./inbound.ts";
import { LiveSession, sendMessage, sendOptions, sendQueueTo, type SessionEvents } from "./live-session.ts";
import { refuseForNow, refuseUpgrade } from "./refuse-upgrade.ts";
import { FrameRateLimiter, WorkBudget } from "./read-limits.ts";
import { ReceiveBudget } from "./receive-budget.ts";

const HELLO_TIMEOUT_MS = 10_000;
const NONCE_BYTES = 32;
/** Retry delay, ±50%, when the node has too many robots or too many links without a hello. */
const FULL_RETRY_MS = 10_000;
/** Disconnects a peer that does not answer a close frame within 5 s. A separate constant, because the types of ws lack this option. */
const CLOSING = { closeTimeout: 5_000 };
const FRAME_BYTES_MAX = 64 * 1024 + 8;
/** Maximum WebSocket fragments of a message, and maximum chunks of data in which a message may arrive. */
const FRAGMENTS_MAX = 16;
const CHUNKS_MAX = 4_096;
const CONTROL_BUFFER_TIMEOUT_MS = 5_000;
/** Minimum and maximum time over which reconnects of drained robots are spread. Between them: the time that accepting all takes. */
const DRAIN_SPREAD_MS = { min: 1_000, max: 60_000 };
/** Share of the admission rate that is reserved for reconnects of drained robots. The rest is for other robots. */
const DRAIN_SHARE = 0.8;

/** Where an upgrade request came from, and to which server it was addressed. */
export interface LinkSource extends BoundChannel {
  /** The client's address. */
  ip: string;
  /** Host and port of the server, from the request. */
  host: string;
}

export interface GatewayContext {
  clock: Clock;
  id: IdSource;
  log: Logger;
  activity: Activity;
  settings: LinkSettings;
  handlers: () => LinkHandlers;
  /** False while other nodes may have declared this node dead. Its records about robots would then be ignored. */
  is_held: () => boolean;
}

/** Accepts the robots' connections: challenge, hello, welcome, then frames and messages in both directions. Does not interpret messages. */
export class Gateway implements Link {
  readonly #context: GatewayContext;
  readonly #server = new WebSocketServer({
    noServer: true,
    // Sessions are tracked here. A second list would cost a listener and a closure per link.
    clientTracking: false,
    perMessageDeflate: false,
    // In each turn of the event loop, process only one frame of a link. A 64 KiB chunk of 4,000 frames would delay other links by 20 ms.
    allowSynchronousEvents: false,
    maxPayload: FRAME_BYTES_MAX,
    // A frame is one WebSocket message. Intermediaries may fragment it, within this bound.
    maxFragments: FRAGMENTS_MAX,
    maxBufferedChunks: CHUNKS_MAX,
    ...CLOSING,
    handleProtocols: (offered) => (offered.has(LINK_SUBPROTOCOL) ? LINK_SUBPROTOCOL : false),
  });
  readonly #sessions = new Map<string, LiveSession>();
  readonly #timer: Timer;
  readonly #admissions: AdmissionQueue;
  readonly #send_options: SendQueueOptions;
  readonly #events: SessionEvents;
  /** Upgraded links that have not sent a hello yet. */
  readonly #silent: AddressShares;
  /** Sockets between the upgrade and the welcome. */
  readonly #greeted = new Set<WebSocket>();
  #draining = false;
  /** Running admissions and database writes about ended links. A stopping server waits for them before it closes the database. */
  readonly #pending = new Set<Promise<void>>();
  #emptied: (() => void) | undefined;

  constructor(context: GatewayContext) {
    this.#context = context;
    this.#send_options = sendOptions(context.clock);
    this.#events = this.#sessionEvents();
    this.#silent = new AddressShares(context.settings.unauthenticated_links_max);
    this.#admissions = new AdmissionQueue(context.clock, context.settings.link_accepts_per_second);
    const heartbeat_ms = context.settings.heartbeat_seconds * 1_000;
    this.#timer = context.clock.every(heartbeat_ms, () => void closeHalfOpen(this.#sessions.values(), context.clock, heartbeat_ms));
  }

  get count(): number {
    return this.#sessions.size;
  }

  /** Load of the admission queue and of pending messages. */
  get load(): { admissions: Pick<AdmissionQueue, "queued" | "booked" | "rate">; work: Pick<WorkBudget, "bytes" | "held"> } {
    return { admissions: this.#admissions, work: this.#events.budget };
  }

  session(robot_id: string): Session | undefined {
    return this.#sessions.get(robot_id);
  }

  sessions(): Iterable<Session> {
    return this.#sessions.values();
  }

  send(robot_id: string, message: ServerMessage): boolean {
    return this.#sessions.get(robot_id)?.send(message) ?? false;
  }

  takeSeen(): Map<string, { org_id: string; at: Date }> {
    const { clock } = this.#context;
    const [now, monotonic] = [clock.now().getTime(), clock.monotonic()];
    const seen = new Map<string, { org_id: string; at: Date }>();
    for (const session of this.#sessions.values()) {
      if (!session.seen) continue;
      session.seen = false;
      seen.set(session.robot_id, { org_id: session.org_id, at: new Date(now - (monotonic - session.heard_at)) });
    }
    return seen;
  }

  async drain(reason: string): Promise<void> {
    this.#draining = true;
    this.#timer.cancel();
    this.#admissions.close();
    for (const ws of this.#greeted) ws.terminate();
    this.sendAway([...this.#sessions.values()], reason);
    // The peer answers a close within a round trip. If it does not, the link is terminated.
    const cut = this.#context.clock.setTimer(CONTROL_BUFFER_TIMEOUT_MS, () => {
      for (const session of this.#sessions.values()) session.terminate(reason);
    });
    if (this.#sessions.size > 0) await new Promise<void>((resolve) => (this.#emptied = resolve));
    cut.cancel();
    await Promise.allSettled(this.#pending);
    this.#server.close();
  }

  sendAway(sessions: Iterable<Session>, reason: string): void {
    const going = [...sessions].flatMap(({ robot_id, session_id }) => {
      const held = this.#sessions.get(robot_id);
      return held?.session_id === session_id ? [held] : [];
    });
    const spread_ms = this.#spreadOf(going.length);
    for (const session of going) session.goAway(Math.floor(this.#context.clock.random() * spread_ms), reason);
  }

  /** Handles an upgrade request for the link's path. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, from: LinkSource): void {
    const { settings } = this.#context;
    if (this.#draining) return refuseUpgrade(socket, 503, "http_error", "the server is stopping", { "retry-after": "5" });
    if (!this.#context.is_held())
      return refuseUpgrade(socket, 503, "http_error", "this server is isolated from the others", { "retry-after": "5" });
    const slot = slotOf(request);
    // A robot with a booked slot is queued even if its network has too many links without a hello.
    const is_expected = slot !== undefined && this.#admissions.isBooked(slot);
    if (this.#sessions.size + this.#admissions.queued >= settings.robots_max || !(is_expected || this.#silent.hasRoom(from.ip)))
      return this.#refuseForLong(socket);
    if (!(request.headers["sec-websocket-protocol"] ?? "").split(/ *, */).includes(LINK_SUBPROTOCOL)) {
      return refuseUpgrade(socket, 426, "http_error", `this server only supports ${LINK_SUBPROTOCOL}`, {
        "sec-websocket-protocol": LINK_SUBPROTOCOL,
      });
    }
    let leave = ignore;
    const answer = this.#admissions.request({
      slot,
      network: networkOf(from.ip),
      hasRoom: () => this.#silent.hasRoom(from.ip),
      enter: () => {
        socket.off("close", leave).off("error", ignore);
        if (socket.destroyed) return false;
        this.#open(request, socket, head, from);
        return true;
      },
      sendAway: (booking) => {
        socket.off("close", leave).off("error", ignore);
        refuseForNow(socket, booking);
      },
    });
    if (answer.to === "later") return refuseForNow(socket, answer.booking);
    if (answer.to === "entered") return;
    leave = answer.leave;
    socket.once("close", leave).on("error", ignore);
  }

  #refuseForLong(socket: Duplex): void {
    refuseForNow(socket, { retry_after_ms: FULL_RETRY_MS * (0.5 + this.#context.clock.random()) });
  }

  /** Admits a robot: completes the upgrade, then sends the challenge. */
  #open(request: IncomingMessage, socket: Duplex, head: Buffer, { ip, ...expected }: LinkSource): void {
    const release = this.#silent.take(ip);
    const uncount = (): void => {
      socket.off("close", uncount);
      release();
      this.#admissions.roomFreed();
    };
    socket.once("close", uncount);
    // Sends the response to the upgrade and the challenge in one write.
    socket.cork();
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      ws.on("error", ignore); // a close event follows
      for (const event of CONTROL_EVENTS) ws.on(event, cut);
      this.#greeted.add(ws);
      const nonce = Buffer.from(this.#context.clock.randomBytes(NONCE_BYTES)).toString("base64url");
      void this.#greet(ws, sendQueueTo(ws, socket, this.#send_options), ip, { nonce, ...expected }, uncount);
      ws.once("close", () => this.#greeted.delete(ws));
    });
    socket.uncork();
  }

  /** Runs challenge → hello → welcome. Anything else, or a timeout, ends the link. */
  async #greet(ws: WebSocket, queue: SendQueue, ip: string, expected: ExpectedChallenge, heard: () => void): Promise<void> {
    const { clock } = this.#context;
    const timeout = clock.setTimer(HELLO_TIMEOUT_MS, () => ws.terminate());
    const first = firstMessage(ws);
    sendMessage(queue, { type: "challenge", nonce: expected.nonce, protocols: [...LINK_PROTOCOLS] });
    const hello = await first;
    timeout.cancel();
    heard();
    if (hello === undefined) return;
    if (hello.type !== "hello") return ws.close(1008, "hello must come first");
    this.#admissions.started();
    try {
      await this.#track(this.#admit(ws, queue, ip, hello, expected));
    } catch (error) {
      this.#context.log.error({ err: error }, "could not admit a robot");
      ws.close(1011, "the server could not admit the robot");
    } finally {
      this.#admissions.ended();
    }
  }

  async #admit(ws: WebSocket, queue: SendQueue, ip: string, hello: Hello, expected: ExpectedChallenge): Promise<void> {
    const { clock, settings, id } = this.#context;
    const protocol = commonProtocol(hello.protocols);
    if (protocol === undefined) return refuse(ws, queue, "unsupported_protocol", describeNoProtocol(LINK_PROTOCOLS, hello.protocols));
    const admission = await this.#context.handlers().admit(hello, expected, ip);
    if (!admission.admitted) return refuse(ws, queue, admission.code, admission.message, admission.retry_after_ms);
    if (ws.readyState !== ws.OPEN) return;
    const wait_ms = this.#events.pace.open(hello.robot_id);
    if (wait_ms > 0) return refuse(ws, queue, "busy", "the robot opens links too often", Math.ceil(wait_ms));
    // Checks again: the process may have been suspended meanwhile, and the robot may be connected to another node now.
    if (!this.#context.is_held()) return ws.close(1012, "the server is isolated from the others");
    const session = new LiveSession(ws, queue, { session_id: id("sess"), org_id: admission.org_id, hello, ip, clock }, this.#events);
    sendMessage(queue, {
      type: "welcome",
      protocol,
      features: session.features,
      session_id: session.session_id,
      server_time: clock.now().getTime(),
      heartbeat_seconds: settings.heartbeat_seconds,
      health_seconds: settings.health_seconds,
      log_flush_ms: settings.log_flush_ms,
      acked_seq: admission.acked_seq,
      acked_log_seq: admission.acked_log_seq,
    });
    this.#greeted.delete(ws);
    this.#adopt(ws, session);
    await this.#context.handlers().connected(session, admission.public_key);
  }

  async #track(work: Promise<void>): Promise<void> {
    const end = this.#context.activity.begin();
    this.#pending.add(work);
    await work.finally(end).finally(() => this.#pending.delete(work));
  }

  /** Registers the newer link of a robot and closes the older one, which may be half open without either side noticing. */
  #adopt(ws: WebSocket, session: LiveSession): void {
    const { clock } = this.#context;
    const older = this.#sessions.get(session.robot_id);
    this.#sessions.set(session.robot_id, session);
    older?.close(4000, "replaced by a newer link");
    ws.off("message", cut).on("message", (data, binary) => session.receive(data as Buffer, binary, clock.monotonic()));
    const heard = (): void => session.heardControl();
    for (const event of CONTROL_EVENTS) ws.off(event, cut).on(event, heard);
    // Removes the close listener of `#open`, which would keep objects of the upgrade in memory.
    ws.removeAllListeners("close").once("close", (code, reason) => {
      if (this.#sessions.get(session.robot_id) === session) this.#sessions.delete(session.robot_id);
      if (this.#sessions.size === 0) this.#emptied?.();
      const why = session.end_reason ?? (reason.length > 0 ? storableText(reason.toString("utf8")) : `connection closed (code ${code})`);
      session.ended(why);
      void this.#track(this.#disconnected(session, why));
    });
  }

  async #disconnected(session: LiveSession, reason: string): Promise<void> {
    try {
      await this.#context.handlers().disconnected(session, reason);
    } catch (error) {
      this.#context.log.error({ err: error, robot_id: session.robot_id }, "could not record a robot's disconnect");
    }
  }

  #sessionEvents(): SessionEvents {
    return {
      budget: new WorkBudget(),
      memory: new ReceiveBudget(),
      pace: new FrameRateLimiter(this.#context.clock, this.#context.settings.robots_max),
      message: async (session: LiveSession, message: Exclude<RobotMessage, { type: "hello" }>): Promise<void> => {
        const end = this.#context.activity.begin();
        try {
          const { messages } = this.#context.handlers();
          await (messages[message.type] as (session: Session, message: RobotMessage) => Promise<void>)(session, message);
        } finally {
          end();
        }
      },
      // The message is not acknowledged, so the robot sends it again on its next link. Failures are expected while the server stops.
      failed: (session: LiveSession, error: unknown): void => {
        this.#context.log[this.#draining ? "info" : "error"](
          { err: error, robot_id: session.robot_id },
          "could not process a robot's message",
        );
        session.close(1011, "the server could not process a message");
      },
    };
  }

  #spreadOf(robots: number): number {
    const accepts = this.#context.settings.link_accepts_per_second * DRAIN_SHARE;
    const needed_ms = accepts > 0 ? (robots / accepts) * 1_000 : 0;
    return Math.min(DRAIN_SPREAD_MS.max, Math.max(DRAIN_SPREAD_MS.min, needed_ms));
  }
}

const ignore = (): void => {};

function slotOf({ headers }: IncomingMessage): string | undefined {
  const slot = headers[LINK_SLOT_HEADER];
  return typeof slot === "string" ? slot : undefined;
}

/** WebSocket pings and pongs. The ws library answers pings. The link only rate-limits both: its heartbeats are link frames. */
const CONTROL_EVENTS = ["ping", "pong"] as const;

/** Ends the connection: a robot may only send a hello before the welcome. */
function cut(this: WebSocket): void {
  this.terminate();
}

function refuse(ws: WebSocket, queue: SendQueue, code: Refused["code"], message: string, retry_after_ms?: number): void {
  sendMessage(queue, { type: "refused", code, message, ...(retry_after_ms === undefined ? {} : { retry_after_ms }) });
  ws.close(4001, code);
}

/** Resolves with the first control message, or with undefined if the link first closes or violates the protocol. */
function firstMessage(ws: WebSocket): Promise<RobotMessage | undefined> {
  return new Promise((resolve) => {
    const onMessage = (data: unknown, binary: boolean): void => {
      try {
        if (!binary) throw new Error("text frames are not part of the link");
        const frame = decodeFrame(data as Buffer);
        if (frame.type !== FrameType.DATA || frame.channel !== CONTROL_CHANNEL) throw new Error("hello must come first");
        // Fragmented messages are refused before authentication, because buffering them takes memory.
        if (frame.flags !== 0) throw new Error("hello must be one frame");
        done(parseMessage(frame.payload));
      } catch (error) {
        ws.close(1002, (error as Error).message.slice(0, 120));
        done(undefined);
      }
    };
    const onClose = (): void => done(undefined);
    const done = (message: RobotMessage | undefined): void => {
      ws.off("message", onMessage).on("message", cut);
      ws.off("close", onClose);
      resolve(message);
    };
    ws.on("message", onMessage);
    ws.once("close", onClose);
  });
}
