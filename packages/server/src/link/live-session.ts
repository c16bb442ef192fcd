import type { Duplex } from "node:stream";
import type { Clock } from "@roamfleet/clock";
import {
  asksTime,
  BulkReceipts,
  type Channel,
  ChannelRefused,
  CHANNELS_MAX,
  ChannelTable,
  CLOSE_NOT_AVAILABLE,
  commonFeatures,
  CONTROL_CHANNEL,
  CreditGiver,
  decodeFrame,
  FLAG_BULK,
  FLAG_MORE,
  FLAG_PACKED,
  FLAG_REPLY,
  type Frame,
  FrameError,
  FrameType,
  type LinkFeature,
  LOG_CHANNEL,
  ITEM_OVERHEAD_BYTES,
  MessageAssembler,
  ReceiveMemory,
  type SendClass,
  SendQueue,
  type SendQueueOptions,
  timeReply,
  unpackMessage,
} from "@roamfleet/protocol/link";
import type { Hello, RobotMessage, ServerMessage } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import { minor_gc } from "../kernel/minor-gc.ts";
import type { Session } from "./contract.ts";
import { ServerFrameSocket } from "./frame-socket.ts";
import { type FrameRateLimiter, PauseReason, type RateLimited, ReadValve, type WorkBudget, WorkQueue } from "./read-limits.ts";
import { MessageError, parseMessage } from "./inbound.ts";
import type { Holder, ReceiveBudget } from "./receive-budget.ts";

/** Maximum data that waits to be sent over a link. A link with more is closed. */
export const SEND_BYTES_MAX = 8 * 1024 * 1024;

/** Longest control message of a robot. A health snapshot with full lists takes about half of it. */
export const ROBOT_MESSAGE_BYTES_MAX = 2 * 1024 * 1024;
/** Maximum size of a message on the log channel. Agents flush about 256 KiB. */
export const ROBOT_LOG_BYTES_MAX = 1024 * 1024;
/** Longest pause of reading. Heartbeats are not read during a pause. */
const PAUSE_MS_MAX = 5_000;
/** Bytes per token of the frame rate limit, for all frames except data of streams. */
const JSON_UNIT_BYTES = 1024;
/** Bytes per token for data of streams. It costs less, because it is forwarded without parsing. */
const STREAM_UNIT_BYTES = 16 * 1024;

/** Options of the send queues of a node's links. */
export const sendOptions = (clock: Clock): SendQueueOptions => ({ now: () => clock.monotonic(), control_bytes_max: SEND_BYTES_MAX });

/** Creates the send queue of a link. All frames to the robot pass through it, from the challenge on. */
export const sendQueueTo = (ws: WebSocket, socket: Duplex, options: SendQueueOptions): SendQueue =>
  new SendQueue(new ServerFrameSocket(ws, socket), options);

export const sendMessage = (queue: SendQueue, message: ServerMessage): boolean => queue.pushText(JSON.stringify(message));

export interface SessionEvents {
  /** Memory of pending messages of all links. */
  readonly budget: WorkBudget;
  /** Memory of incomplete or unread messages of all links. */
  readonly memory: ReceiveBudget;
  readonly pace: FrameRateLimiter;
  /** Called when a message arrives. Resolves when it has been processed. */
  message(session: LiveSession, message: Exclude<RobotMessage, { type: "hello" }>): Promise<void>;
  failed(session: LiveSession, error: unknown): void;
}

/** A robot's link after the welcome. While idle, the object has no timers and no closures, because a node has thousands of them. */
export class LiveSession implements Session, RateLimited, Holder {
  readonly session_id: string;
  readonly org_id: string;
  readonly robot_id: string;
  readonly hello: Hello;
  readonly ip: string;
  /** Monotonic milliseconds at which the last frame arrived. */
  heard_at: number;
  /** Whether a frame arrived since the last call of takeSeen. */
  seen = true;
  end_reason: string | undefined;
  readonly valve: ReadValve;
  frames: RateLimited["frames"];
  readonly #socket: WebSocket;
  readonly #events: SessionEvents;
  readonly #queue: SendQueue;
  readonly #clock: Clock;
  #memory: ReceiveMemory | undefined;
  #channels: ChannelTable | undefined;
  #receipts: BulkReceipts | undefined;
  #log_credit: CreditGiver | undefined;
  #control: MessageAssembler | undefined;
  #logs: MessageAssembler | undefined;
  #work: WorkQueue | undefined;
  #terminated = false;

  constructor(
    socket: WebSocket,
    queue: SendQueue,
    identity: { session_id: string; org_id: string; hello: Hello; ip: string; clock: Clock },
    events: SessionEvents,
  ) {
    this.#socket = socket;
    this.valve = new ReadValve(socket);
    this.#queue = queue;
    this.#clock = identity.clock;
    this.session_id = identity.session_id;
    this.org_id = identity.org_id;
    this.robot_id = identity.hello.robot_id;
    this.hello = identity.hello;
    this.ip = identity.ip;
    this.heard_at = identity.clock.monotonic();
    this.#events = events;
    queue.paced = this.knows("credit");
  }

  /** The features that both the robot's agent and this server support. */
  get features(): LinkFeature[] {
    return commonFeatures(this.hello.features);
  }

  knows(feature: LinkFeature): boolean {
    return this.features.includes(feature);
  }

  /** Returns whether reading is paused, so that no heartbeat can arrive. */
  get paused(): boolean {
    return this.valve.closed;
  }

  get channel_room(): number {
    // An agent that does not support streams counts as having room, so that openChannel rejects with the actual reason.
    return this.knows("channels") ? this.#table().room : CHANNELS_MAX;
  }

  openChannel(kind: string, send_class: Exclude<SendClass, "control">, params?: unknown): Promise<Channel> {
    if (this.#socket.readyState !== this.#socket.OPEN)
      return Promise.reject(new ChannelRefused({ code: CLOSE_NOT_AVAILABLE, reason: "the robot's link is closing" }));
    if (!this.knows("channels"))
      return Promise.reject(new ChannelRefused({ code: CLOSE_NOT_AVAILABLE, reason: "the robot's agent is too old for streams" }));
    return this.#table().open(kind, send_class, params);
  }

  /** Closes the channels after the socket has closed. */
  ended(reason: string): void {
    this.#queue.close();
    this.#channels?.endAll(reason);
    this.#events.memory.forget(this);
    this.#memory = undefined;
  }

  evict(): void {
    this.terminate("incomplete messages of the robot take too much memory");
  }

  send(message: ServerMessage): boolean {
    if (this.#socket.readyState !== this.#socket.OPEN) return false;
    if (!sendMessage(this.#queue, message)) {
      this.terminate("the robot does not read the server's messages");
      return false;
    }
    return true;
  }

  close(code: number, reason: string): void {
    this.end_reason ??= reason;
    this.#socket.close(code, reason);
  }

  pauseReading(ms: number): void {
    if (this.valve.isPausedFor(PauseReason.log_rate)) return;
    this.valve.pause(PauseReason.log_rate);
    this.#clock.setTimer(Math.min(PAUSE_MS_MAX, ms), () => this.valve.resume(PauseReason.log_rate));
  }

  /** Ends the link without waiting for the peer. */
  terminate(reason: string): void {
    this.end_reason ??= reason;
    this.#terminated = true;
    this.#socket.terminate();
  }

  goAway(retry_after_ms: number, reason: string): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#queue.pushControl(FrameType.GOAWAY, CONTROL_CHANNEL, Buffer.from(JSON.stringify({ retry_after_ms, reason })));
    this.close(1012, reason);
  }

  /** Processes one WebSocket message. An invalid frame ends the link. Later frames of the same chunk still arrive here, and are ignored. */
  receive(bytes: Buffer, binary: boolean, now: number): void {
    minor_gc.received(bytes.length);
    if (this.#terminated) return;
    // A closing link does not process further frames. The robot sends them again on its next link.
    if (this.end_reason !== undefined) return this.#pace(bytes.length, JSON_UNIT_BYTES);
    this.heard_at = now;
    this.seen = true;
    try {
      if (!binary) throw new FrameError("text frames are not part of the link");
      const frame = decodeFrame(bytes);
      this.#pace(bytes.length, isStream(frame) ? STREAM_UNIT_BYTES : JSON_UNIT_BYTES);
      this.#frame(frame);
    } catch (error) {
      if (!(error instanceof FrameError) && !(error instanceof MessageError)) throw error;
      this.close(error instanceof FrameError ? 1002 : 1008, error.message.slice(0, 120));
      // The close frame is already written. Ends the link now, so that data that the robot has already sent, possibly megabytes, is not
      // received.
      this.terminate("protocol violated");
    }
  }

  /** Counts a WebSocket ping or pong, which ws answers, against the frame rate. */
  heardControl(): void {
    if (!this.#terminated) this.#pace(0, JSON_UNIT_BYTES);
  }

  #pace(bytes: number, unit_bytes: number): void {
    this.#events.pace.take(this, 1 + Math.floor(bytes / unit_bytes));
  }

  #frame(frame: Frame): void {
    if (frame.type === FrameType.PING) {
      const payload = asksTime(frame) ? timeReply(this.#clock.now().getTime()) : frame.payload;
      if ((frame.flags & FLAG_REPLY) === 0) this.#reply(FrameType.PING, frame.channel, payload, FLAG_REPLY);
    } else if (frame.type === FrameType.DATA) this.#data(frame);
    else this.#table().receive(frame);
  }

  #data(frame: Frame): void {
    if ((frame.flags & FLAG_BULK) !== 0) this.#credit(CONTROL_CHANNEL, (this.#receipts ??= new BulkReceipts()).take(frame));
    const { length } = frame.payload;
    if (frame.channel === CONTROL_CHANNEL)
      return this.#message(this.#unpack(frame, (this.#control ??= this.#assembler(ROBOT_MESSAGE_BYTES_MAX)).push(frame)), 0);
    if (frame.channel !== LOG_CHANNEL) return this.#table().receive(frame);
    const message = this.#unpack(frame, (this.#logs ??= this.#assembler(ROBOT_LOG_BYTES_MAX)).push(frame));
    if (!this.knows("credit")) return this.#message(message, 0);
    this.#log_credit ??= new CreditGiver();
    this.#log_credit.arrived(length);
    // Returns flow-control credit for each fragment as it arrives, and for the last fragment when the message is processed.
    if ((frame.flags & FLAG_MORE) !== 0) this.#credit(LOG_CHANNEL, this.#log_credit.consumed(length));
    this.#message(message, length);
  }

  /**
   * Decompresses a message whose last frame is marked as compressed. The limits of a message apply to its decompressed size, and so does the
   * frame rate: a frame of 1 KiB may contain 1 MiB.
   */
  #unpack({ flags, channel }: Frame, message: Uint8Array | undefined): Uint8Array | undefined {
    if (message === undefined || (flags & FLAG_PACKED) === 0) return message;
    if (!this.knows("packed")) throw new FrameError("the message is compressed, but the robot did not announce this feature");
    const unpacked = unpackMessage(message, channel === LOG_CHANNEL ? ROBOT_LOG_BYTES_MAX : ROBOT_MESSAGE_BYTES_MAX);
    this.#pace(unpacked.length, JSON_UNIT_BYTES);
    return unpacked;
  }

  /** `credit`: bytes to return on the log channel after the message was processed. */
  #message(message: Uint8Array | undefined, credit: number): void {
    if (message === undefined) return;
    const parsed = parseMessage(message);
    if (parsed.type === "hello") throw new MessageError("hello was sent twice");
    this.#work ??= new WorkQueue(this.valve, this.#events.budget, this.org_id);
    const items = parsed.type === "logs" ? parsed.records.length : 1;
    this.#work.add(
      message.byteLength + items * ITEM_OVERHEAD_BYTES,
      async () => {
        await this.#events.message(this, parsed);
        if (credit > 0) this.#credit(LOG_CHANNEL, this.#log_credit?.consumed(credit));
      },
      (error) => this.#events.failed(this, error),
    );
  }

  #credit(channel: number, payload: Uint8Array | undefined): void {
    if (payload !== undefined) this.#reply(FrameType.CREDIT, channel, payload, 0);
  }

  #reply(type: FrameType, channel: number, payload: Uint8Array, flags: number): void {
    if (!this.#queue.pushControl(type, channel, payload, flags)) this.terminate("the robot does not read the server's messages");
  }

  #assembler(bytes_max: number): MessageAssembler {
    return new MessageAssembler({ bytes_max, memory: this.#received() });
  }

  #received(): ReceiveMemory {
    return (this.#memory ??= new ReceiveMemory({ changed: (bytes) => this.#events.memory.change(this, bytes) }));
  }

  #table(): ChannelTable {
    if (this.#channels !== undefined) return this.#channels;
    const table = new ChannelTable({
      memory: this.#received(),
      queue: this.#queue,
      end: "server",
      clock: this.#clock,
      stuck: () => this.terminate("the robot does not read the server's messages"),
    });
    this.#queue.on_room = () => table.retry();
    return (this.#channels = table);
  }
}

/** Returns whether a frame is data of a stream. The credit of its channel bounds how much unread data the sender may send. */
const isStream = ({ type, channel }: Frame): boolean => type === FrameType.DATA && channel !== CONTROL_CHANNEL && channel !== LOG_CHANNEL;
