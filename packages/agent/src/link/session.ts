import type { Activity, ByteRate, Clock, Timer } from "@roamfleet/clock";
import {
  ASK_TIME,
  BulkReceipts,
  CHANNEL_WINDOW_BYTES,
  ChannelTable,
  commonFeatures,
  commonProtocol,
  CONTROL_CHANNEL,
  decodeFrame,
  describeNoProtocol,
  FLAG_PACKED,
  FLAG_REPLY,
  type Frame,
  FrameError,
  FrameType,
  LINK_PROTOCOLS,
  LOG_CHANNEL,
  MessageAssembler,
  packMessage,
  ReceiveMemory,
  type Refused,
  type SendClass,
  SendQueue,
  type ServerMessage,
  type StreamSource,
  timeInReply,
  type Welcome,
} from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import type { RawData, WebSocket } from "ws";
import { errorText } from "../disk/write-atomically.ts";
import { parseObject } from "../json.ts";
import { sensibleWaitMs } from "./backoff.ts";
import { parseDesired } from "./desired-store.ts";
import { frameSocket } from "./frame-socket.ts";

const HELLO_TIMEOUT_MS = 10_000;
/** Number of heartbeats without any frame after which the link counts as half open and is closed. */
const SILENT_HEARTBEATS_MAX = 3;
const CLOSE_TIMEOUT_MS = 2_000;
const CLOSE_GOING_AWAY = 1001;
const CLOSE_PROTOCOL_ERROR = 1002;
const CLOSE_INTERNAL_ERROR = 1011;

/** Why a session ended, and how the next attempt should behave. */
export interface SessionEnd {
  reason: string;
  /** How long the server asked the robot to wait. */
  wait_ms?: number | undefined;
  /** True if only a person can fix the problem: the robot retries slowly. */
  slow?: boolean;
}

/** Messages that the server may send after the welcome. A refusal is not among them: it ends the session and reaches no handler. */
export type AfterWelcome = Exclude<ServerMessage, { type: "refused" }>;

/** Callbacks of a session. */
interface SessionHandlers {
  /** Returns the signed `hello` message for the server's nonce. Rejects if the robot cannot sign. */
  hello(nonce: string): Promise<unknown>;
  /** Called when the server has accepted the robot. Returns why this link must not be used; undefined if it may. */
  welcomed(welcome: Welcome): SessionEnd | undefined;
  message(message: AfterWelcome): void;
  /** Called with the server's time, in milliseconds since 1970, when the server answers a heartbeat. */
  time(server_time: number): void;
  /** Called after frames were sent, since the send queue may have room again. */
  room(): void;
}

interface SessionOptions {
  clock: Clock;
  activity: Activity;
  log: Logger;
  handlers: SessionHandlers;
  /** The handler of each kind of channel that the server may open. */
  sources: ReadonlyMap<string, StreamSource>;
  /** Limits the rate of what is sent; absent: unlimited. */
  upload: ByteRate | undefined;
}

/** One connection of the link, from the WebSocket upgrade to its end. */
export class Session {
  readonly #socket: WebSocket;
  readonly #options: SessionOptions;
  readonly #queue: SendQueue;
  readonly #channels: ChannelTable;
  readonly #receipts = new BulkReceipts();
  readonly #memory = new ReceiveMemory();
  readonly #control = new MessageAssembler({ memory: this.#memory });
  readonly #ended = Promise.withResolvers<SessionEnd>();
  /** Resolves once, when the socket is closed or abandoned. */
  readonly ended = this.#ended.promise;
  #end: SessionEnd | undefined;
  #timers: Timer[] = [];
  #last_heard: number;
  #welcomed = false;
  /** Whether the server accepts compressed messages. */
  #packs = false;
  readonly #greeted: () => void;

  readonly #on_frame: Record<FrameType, (frame: Frame) => void> = {
    [FrameType.DATA]: (frame) => this.#data(frame),
    [FrameType.PING]: (frame) => this.#ping(frame),
    [FrameType.GOAWAY]: (frame) => this.#goAway(frame),
    [FrameType.OPEN]: (frame) => this.#channels.receive(frame),
    [FrameType.ACCEPT]: (frame) => this.#channels.receive(frame),
    [FrameType.CREDIT]: (frame) => this.#channels.receive(frame),
    [FrameType.CLOSE]: (frame) => this.#channels.receive(frame),
    [FrameType.RESET]: (frame) => this.#channels.receive(frame),
  };

  /** Creates the session of an open socket. Must be called before the first message can arrive. */
  constructor(socket: WebSocket, options: SessionOptions) {
    this.#socket = socket;
    this.#options = options;
    const { clock, activity, upload } = options;
    const now = (): number => clock.monotonic();
    const limit = upload && { spend: (bytes: number) => upload.spend(bytes, now()), setTimer: clock.setTimer.bind(clock) };
    this.#queue = new SendQueue(frameSocket(socket), { now, begin: () => activity.begin(), ...(limit && { limit }) });
    this.#queue.on_room = () => {
      this.#channels.retry();
      if (this.#welcomed) options.handlers.room();
    };
    this.#channels = new ChannelTable({
      queue: this.#queue,
      end: "robot",
      memory: this.#memory,
      clock: options.clock,
      sources: options.sources,
      failed: (kind, error) => options.log.error({ kind, err: error }, "a stream failed"),
      stuck: () => this.#finish({ reason: "the server does not read the agent's messages" }),
    });
    this.#last_heard = options.clock.monotonic();
    this.#greeted = options.activity.begin();
    this.#after(HELLO_TIMEOUT_MS, () => this.#finish({ reason: `no welcome after ${HELLO_TIMEOUT_MS / 1000} s` }));
    socket.on("message", (data, is_binary) => this.#receive(data, is_binary));
    socket.on("close", (code, reason) =>
      this.#closed({ reason: `the connection was closed (${code}${reason.length > 0 ? ` ${reason.toString()}` : ""})` }),
    );
  }

  /** Queues a control message. Returns false if the queue is full or the server has not welcomed the robot yet. */
  send(message: unknown): boolean {
    return this.#welcomed && this.#push(CONTROL_CHANNEL, Buffer.from(JSON.stringify(message)));
  }

  /**
   * Queues a batch of logs that is already encoded as JSON. Returns false if the queue is full or the server has not
   * welcomed the robot yet.
   */
  sendLogs(message: string): boolean {
    return this.#welcomed && this.#push(LOG_CHANNEL, Buffer.from(message));
  }

  /** Queues a message, compressed if the server supports that. */
  #push(channel: number, message: Buffer): boolean {
    const packed = this.#packs ? packMessage(message) : undefined;
    return packed === undefined ? this.#queue.pushMessage(channel, message) : this.#queue.pushMessage(channel, packed, FLAG_PACKED);
  }

  room(send_class: SendClass): number {
    return this.#queue.room(send_class);
  }

  /** Calls `work` after `ms` milliseconds, unless the session has ended by then. */
  #after(ms: number, work: () => void): void {
    this.#timers.push(this.#options.clock.setTimer(ms, work));
  }

  every(ms: number, work: () => unknown): void {
    this.#timers.push(this.#options.clock.every(ms, work));
  }

  /** Closes the socket with code 1001 and ends the session. */
  close(reason: string): void {
    this.#finish({ reason }, CLOSE_GOING_AWAY);
  }

  /** Ends the session without a close frame. */
  cut(reason: string): void {
    this.#finish({ reason });
  }

  #receive(data: RawData, is_binary: boolean): void {
    if (this.#end !== undefined) return;
    this.#last_heard = this.#options.clock.monotonic();
    try {
      if (!is_binary || !Buffer.isBuffer(data)) throw new FrameError("a text message is not a frame");
      const frame = decodeFrame(data);
      this.#on_frame[frame.type](frame);
    } catch (error) {
      if (error instanceof FrameError)
        return this.#finish({ reason: `the server violated the protocol: ${error.message}` }, CLOSE_PROTOCOL_ERROR);
      this.#options.log.error({ err: error }, "a frame could not be handled");
      this.#finish({ reason: "a frame of the server could not be handled" }, CLOSE_INTERNAL_ERROR);
    }
  }

  #data(frame: Frame): void {
    const receipt = this.#receipts.take(frame);
    if (receipt !== undefined) this.#queue.pushControl(FrameType.CREDIT, CONTROL_CHANNEL, receipt);
    if (frame.channel !== CONTROL_CHANNEL) return this.#channels.receive(frame);
    const bytes = this.#control.push(frame);
    if (bytes === undefined) return;
    const message = parseServerMessage(bytes);
    // A newer server may send messages that this agent does not support.
    if (message === undefined) return this.#options.log.debug("a message of unknown type was ignored");
    if (message.type === "refused") {
      const wait_ms = sensibleWaitMs(message.retry_after_ms);
      return this.#finish({ reason: `${message.code}: ${message.message}`, wait_ms, slow: message.code !== "busy" }, CLOSE_GOING_AWAY);
    }
    if (this.#welcomed) return this.#options.handlers.message(message);
    this.#greet(message);
  }

  /** Handles messages before the welcome: challenge → hello → welcome. */
  #greet(message: AfterWelcome): void {
    if (message.type === "challenge") {
      if (commonProtocol(message.protocols ?? [1]) === undefined)
        return this.#finish({ reason: describeNoProtocol(message.protocols ?? [1], LINK_PROTOCOLS), slow: true }, CLOSE_GOING_AWAY);
      void this.#sayHello(message.nonce);
    } else if (message.type === "welcome") {
      this.#welcome(message);
    } else {
      throw new FrameError(`${message.type} before welcome`);
    }
  }

  async #sayHello(nonce: string): Promise<void> {
    try {
      const hello = Buffer.from(JSON.stringify(await this.#options.handlers.hello(nonce)));
      if (this.#end === undefined) this.#queue.pushMessage(CONTROL_CHANNEL, hello);
    } catch (error) {
      this.#finish({ reason: `the robot cannot sign: ${errorText(error)}` }, CLOSE_GOING_AWAY);
    }
  }

  #welcome(welcome: Welcome): void {
    this.#welcomed = true;
    this.#greeted();
    this.#stopTimers();
    const features = commonFeatures(welcome.features);
    const credited = features.includes("credit");
    this.#packs = features.includes("packed");
    this.#queue.paced = credited;
    this.#queue.openChannel(LOG_CHANNEL, "logs", credited ? { credit: CHANNEL_WINDOW_BYTES } : {});
    const refused = this.#options.handlers.welcomed(welcome);
    if (refused !== undefined) return this.#finish(refused, CLOSE_GOING_AWAY);
    const heartbeat_ms = welcome.heartbeat_seconds * 1000;
    this.every(heartbeat_ms, () => this.#beat(heartbeat_ms));
  }

  #beat(heartbeat_ms: number): void {
    const silent_ms = this.#options.clock.monotonic() - this.#last_heard;
    if (silent_ms >= heartbeat_ms * SILENT_HEARTBEATS_MAX)
      return this.#finish({ reason: `the server sent nothing for ${Math.round(silent_ms / 1000)} s` });
    this.#queue.pushControl(FrameType.PING, CONTROL_CHANNEL, ASK_TIME);
  }

  #ping(frame: Frame): void {
    if (frame.flags & FLAG_REPLY) {
      const time = timeInReply(frame);
      if (time !== undefined && this.#welcomed) this.#options.handlers.time(time);
      return;
    }
    this.#queue.pushControl(FrameType.PING, frame.channel, Uint8Array.from(frame.payload), FLAG_REPLY);
  }

  #goAway(frame: Frame): void {
    const wait_ms = sensibleWaitMs(parseObject(textIn(frame.payload))?.retry_after_ms);
    this.#finish({ reason: "the server is shutting down", wait_ms }, CLOSE_GOING_AWAY);
  }

  /**
   * Ends the session from the robot's side. With a code, the socket is closed gracefully; otherwise it is
   * terminated.
   */
  #finish(end: SessionEnd, code?: number): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#stopTimers();
    this.#greeted();
    this.#forget(end);
    if (code === undefined) {
      this.#socket.terminate();
      this.#ended.resolve(end);
      return;
    }
    this.#socket.close(code);
    // The close event resolves `ended`. If the server does not answer the close, terminate the socket.
    this.#after(CLOSE_TIMEOUT_MS, () => this.#socket.terminate());
  }

  #closed(end: SessionEnd): void {
    this.#stopTimers();
    this.#greeted();
    this.#forget(end);
    this.#end ??= end;
    this.#ended.resolve(this.#end);
  }

  #forget({ reason }: SessionEnd): void {
    this.#queue.close();
    this.#channels.endAll(reason);
  }

  #stopTimers(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
  }
}

/**
 * The agent does not load a schema library. Instead, the functions below validate the fields of server messages that
 * the agent uses.
 */

const HEARTBEAT_SECONDS = { min: 0.1, max: 3_600 };
const HEALTH_SECONDS = { min: 0.1, max: 86_400 };
const LOG_FLUSH_MS = { min: 5, max: 60_000 };

const textIn = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");

/**
 * Parses a message of the server. Throws FrameError if its fields are invalid; returns undefined if its type is
 * unknown.
 */
function parseServerMessage(bytes: Uint8Array): ServerMessage | undefined {
  const value = parseObject(textIn(bytes));
  if (value === undefined) throw new FrameError("a control message is not a JSON object");
  switch (value.type) {
    case "challenge":
      return { type: "challenge", nonce: text(value, "nonce"), ...(isNumbers(value.protocols) ? { protocols: value.protocols } : {}) };
    case "welcome":
      return parseWelcome(value);
    case "refused": {
      const wait = typeof value.retry_after_ms === "number" ? { retry_after_ms: value.retry_after_ms } : {};
      return { type: "refused", code: text(value, "code") as Refused["code"], message: text(value, "message").slice(0, 500), ...wait };
    }
    case "ack":
    case "log_ack":
      return { type: value.type, seq: count(value, "seq") };
    case "samples_ack":
      return { type: "samples_ack", spool_id: text(value, "spool_id"), seq: count(value, "seq") };
    case "log_follow":
      return { type: "log_follow", on: value.on === true };
    case "desired": {
      const desired = parseDesired(value);
      if (desired === undefined) throw new FrameError("the desired state is malformed");
      return desired;
    }
    default:
      return undefined;
  }
}

function parseWelcome(value: Record<string, unknown>): Welcome {
  return {
    type: "welcome",
    protocol: count(value, "protocol"),
    features: Array.isArray(value.features) ? value.features.filter((one) => typeof one === "string") : [],
    session_id: text(value, "session_id"),
    server_time: count(value, "server_time"),
    heartbeat_seconds: within(value, "heartbeat_seconds", HEARTBEAT_SECONDS),
    health_seconds: within(value, "health_seconds", HEALTH_SECONDS),
    log_flush_ms: within(value, "log_flush_ms", LOG_FLUSH_MS),
    acked_seq: count(value, "acked_seq"),
    acked_log_seq: count(value, "acked_log_seq"),
  };
}

const isNumbers = (value: unknown): value is number[] => Array.isArray(value) && value.every((one) => typeof one === "number");

function text(value: Record<string, unknown>, field: string): string {
  const found = value[field];
  if (typeof found !== "string") throw new FrameError(`${String(value.type)}.${field} is not a string`);
  return found;
}

function count(value: Record<string, unknown>, field: string): number {
  const found = value[field];
  if (typeof found !== "number" || !Number.isSafeInteger(found) || found < 0)
    throw new FrameError(`${String(value.type)}.${field} is not a non-negative integer`);
  return found;
}

/**
 * Returns an interval that the server sent, limited to its bounds. With an extreme value the agent would run in a
 * busy loop or sleep forever.
 */
function within(value: Record<string, unknown>, field: string, bounds: { min: number; max: number }): number {
  const found = value[field];
  if (typeof found !== "number" || !Number.isFinite(found)) throw new FrameError(`${String(value.type)}.${field} is not a number`);
  return Math.min(bounds.max, Math.max(bounds.min, found));
}
