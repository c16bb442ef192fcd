import {
  CONTROL_CHANNEL,
  FLAG_BULK,
  FLAG_MORE,
  FRAME_HEADER_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  FrameError,
  type FramePayload,
  FrameType,
  MESSAGE_BYTES_MAX,
  payloadBytes,
} from "./frame.ts";
import { GRANT_BYTES, ITEM_OVERHEAD_BYTES } from "./receive-memory.ts";
import { RateMeter, SLOW_SLICE_BYTES } from "./rate-meter.ts";

/** Classes of frames in order of strict priority. A frame is sent only if no frame of an earlier class can be sent. */
export const SEND_CLASSES = ["control", "shell", "logs", "topics", "camera"] as const;
export type SendClass = (typeof SEND_CLASSES)[number];
/** Returns whether a class is bulk: its bytes in flight are limited by the measured rate of the link. */
const isBulk = (send_class: SendClass): boolean => SEND_CLASSES.indexOf(send_class) >= SEND_CLASSES.indexOf("logs");

/** Queue limit of each class, in bytes; each message or frame additionally costs ITEM_OVERHEAD_BYTES. */
export const QUEUE_BYTES_MAX: Readonly<Record<SendClass, number>> = {
  control: 1024 * 1024,
  shell: 4 * 1024 * 1024,
  logs: 1024 * 1024,
  topics: 4 * 1024 * 1024,
  camera: 4 * 1024 * 1024,
};
/** Maximum bytes in the socket's buffer when a frame of this class is added: more urgent frames cannot overtake data in that buffer. */
export const SOCKET_BYTES_MAX: Readonly<Record<SendClass, number>> = {
  control: 512 * 1024,
  shell: 256 * 1024,
  logs: 128 * 1024,
  topics: 128 * 1024,
  camera: 128 * 1024,
};
/**
 * Below this many bytes in the socket's buffer, a frame may be sent without a callback. Even after the largest frame, the buffer is then
 * below every limit above, so no queued frame depends on a callback.
 */
const NOTIFY_BYTES = 32 * 1024;
/** Maximum bytes of a UTF-16 code unit in UTF-8. */
const UTF8_BYTES_MAX = 3;

/** A socket that sends frames. Server and robot implement it differently. */
export interface FrameSocket {
  /** Bytes that the socket has accepted and not sent yet. */
  readonly bufferedAmount: number;
  /** Accepts one frame; calls `sent` after it was sent. The payload may change afterwards: it is copied or written immediately. */
  sendFrame(type: FrameType, channel: number, payload: FramePayload, flags: number, sent?: (error?: Error) => void): void;
}

export interface SendQueueOptions {
  /** Returns the time in milliseconds from a monotonic clock. */
  now: () => number;
  /** Queue limit of control in bytes; default QUEUE_BYTES_MAX.control. */
  control_bytes_max?: number;
  /**
   * Called before a frame is sent; the returned function is called afterwards. Tests with a simulated clock use it to wait for the frame.
   */
  begin?: () => () => void;
  /** Limits the rate of the bytes sent. Bulk waits for it; other classes are counted but never wait. Absent: unlimited. */
  limit?: SendLimit;
}

/** Limits the bytes per second that a queue sends. */
export interface SendLimit {
  /** Counts sent bytes. Returns the milliseconds until bulk may be sent. */
  spend(bytes: number): number;
  /** Calls `work` once after `ms` milliseconds. */
  setTimer(ms: number, work: () => void): { cancel(): void };
}

interface Outgoing {
  type: FrameType;
  channel: number;
  payload: Uint8Array;
  flags: number;
  offset: number;
}

/**
 * The queue of one channel, in order. `credit` is the number of bytes that the receiver accepts now, and `window` how many it accepted when
 * the channel was opened.
 */
interface Lane {
  readonly channel: number;
  readonly send_class: SendClass;
  readonly bytes_max: number;
  readonly window: number;
  credit: number;
  waiting: Outgoing[];
  bytes: number;
}

/**
 * The only path to a link's socket, at both ends. Each class has a bounded queue. Frames are sent in strict priority of their classes, and
 * a channel never exceeds its credit. With `paced`, the bulk classes share the measured rate. Uses no memory when idle.
 */
export class SendQueue {
  /** Called after frames were sent or credit arrived, because there may be room now. Never called from within a push. */
  on_room: (() => void) | undefined;
  /** Whether the other end acknowledges bulk data, as the welcome message states. */
  paced = false;
  readonly #socket: FrameSocket;
  readonly #options: SendQueueOptions;
  #lanes: Map<number, Lane> | undefined;
  #order: Record<SendClass, Lane[]> | undefined;
  #class_bytes: Record<SendClass, number> | undefined;
  #meter: RateMeter | undefined;
  #limit_timer: ReturnType<SendLimit["setTimer"]> | undefined;
  #waiting = 0;
  #closed = false;

  constructor(socket: FrameSocket, options: SendQueueOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  /** Bytes per second at which the other end accepts bulk; 0 while unknown. */
  get rate(): number {
    return this.#meter?.rate ?? 0;
  }

  /** Bytes of bulk data that were sent and not acknowledged yet. */
  get in_flight(): number {
    return this.#meter?.in_flight ?? 0;
  }

  /** Number of queued frames and messages that are not sent completely. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Returns the number of bytes that can still be queued in this class. */
  room(send_class: SendClass): number {
    if (this.#closed) return 0;
    return this.#boundOf(send_class) - (this.#class_bytes?.[send_class] ?? 0);
  }

  /** Returns the number of bytes queued for this channel. */
  waitingOf(channel: number): number {
    return this.#lanes?.get(channel)?.bytes ?? 0;
  }

  /** Number of channels that are open for data or have not sent their last frame. */
  get channels(): number {
    return this.#lanes?.size ?? 0;
  }

  /** Opens a channel for data. Without `credit`, only the socket limits the channel. */
  openChannel(channel: number, send_class: SendClass, { credit = Infinity, bytes_max = Infinity } = {}): void {
    this.#laneOf(channel, send_class, credit, bytes_max);
  }

  /** Drops the queue of this channel and refuses further data. */
  dropChannel(channel: number): void {
    const lane = this.#lanes?.get(channel);
    if (lane === undefined) return;
    this.#lanes?.delete(channel);
    this.#order![lane.send_class] = this.#order![lane.send_class].filter((one) => one !== lane);
    this.#class_bytes![lane.send_class] -= lane.bytes;
    this.#waiting -= lane.waiting.length;
  }

  /** Sends a control frame before all other queued data, but after earlier control frames. Returns false if the queue is full or closed. */
  pushControl(type: FrameType, channel: number, payload: Uint8Array, flags = 0): boolean {
    if (this.#sendDirectly(type, channel, payload, flags)) return true;
    return this.#push(this.#controlLane(), { type, channel, payload, flags, offset: 0 });
  }

  /**
   * Queues a whole message of a channel. Returns false if the message does not fit, or if the link or channel is closed. An empty class
   * accepts a message of any size. Throws FrameError if the message exceeds the maximum size.
   */
  pushMessage(channel: number, payload: Uint8Array, flags = 0): boolean {
    if (payload.length > MESSAGE_BYTES_MAX) throw new FrameError(`message of ${payload.length} bytes is over ${MESSAGE_BYTES_MAX}`);
    if (channel === 0 && this.#sendDirectly(FrameType.DATA, channel, payload, flags)) return true;
    const lane = channel === 0 ? this.#controlLane() : this.#lanes?.get(channel);
    return lane !== undefined && this.#push(lane, { type: FrameType.DATA, channel, payload, flags, offset: 0 });
  }

  /** Queues a control message of text, like `pushMessage`. It is copied only once if nothing is queued, which is the common case. */
  pushText(text: string): boolean {
    const fits_frame = text.length * UTF8_BYTES_MAX <= FRAME_PAYLOAD_BYTES_MAX;
    if (fits_frame && this.#sendDirectly(FrameType.DATA, CONTROL_CHANNEL, text, 0)) return true;
    return this.pushMessage(CONTROL_CHANNEL, Buffer.from(text));
  }

  /** Queues the last frame of a channel. It is sent after all data of the channel, and then the channel is removed. */
  pushClose(channel: number, payload: Uint8Array): boolean {
    const lane = this.#lanes?.get(channel);
    return lane !== undefined && this.#push(lane, { type: FrameType.CLOSE, channel, payload, flags: 0, offset: 0 }, true);
  }

  /** Adds `bytes` of credit, granted by the receiver, to this channel. Returns false if that exceeds the credit that was used. */
  credit(channel: number, bytes: number, window: number): boolean {
    const lane = this.#lanes?.get(channel);
    if (lane === undefined || lane.credit === Infinity) return true;
    if (lane.credit + bytes > window) return false;
    lane.credit += bytes;
    this.#event();
    return true;
  }

  /** Records that the other end has received `bytes` of bulk; returns false if that exceeds the bytes sent. */
  acknowledge(bytes: number): boolean {
    if (this.#meter?.acknowledged(bytes, this.#options.now()) !== true) return false;
    this.#event();
    return true;
  }

  /** Drops the queue. The buffer of the socket disappears when the socket is closed. */
  close(): void {
    this.#closed = true;
    this.#lanes = undefined;
    this.#order = undefined;
    this.#class_bytes = undefined;
    this.#waiting = 0;
    this.#limit_timer?.cancel();
    this.on_room = undefined;
  }

  #boundOf(send_class: SendClass): number {
    return (send_class === "control" ? this.#options.control_bytes_max : undefined) ?? QUEUE_BYTES_MAX[send_class];
  }

  #laneOf(channel: number, send_class: SendClass, credit: number, bytes_max: number): Lane {
    this.#lanes ??= new Map();
    this.#order ??= { control: [], shell: [], logs: [], topics: [], camera: [] };
    this.#class_bytes ??= { control: 0, shell: 0, logs: 0, topics: 0, camera: 0 };
    const lane: Lane = { channel, send_class, bytes_max, window: credit, credit, waiting: [], bytes: 0 };
    this.#lanes.set(channel, lane);
    this.#order[send_class].push(lane);
    return lane;
  }

  /** Sends a control frame directly to the socket if nothing is queued, which is the common case. Otherwise returns false. */
  #sendDirectly(type: FrameType, channel: number, payload: FramePayload, flags: number): boolean {
    if (this.#closed || this.#waiting > 0 || payload.length > FRAME_PAYLOAD_BYTES_MAX) return false;
    if (this.#socket.bufferedAmount >= SOCKET_BYTES_MAX.control) return false;
    this.#send(type, channel, payload, flags);
    return true;
  }

  #controlLane(): Lane {
    return this.#lanes?.get(0) ?? this.#laneOf(0, "control", Infinity, Infinity);
  }

  /**
   * Queues a frame. Returns false if there is no room. The `last` frame of a channel is always accepted, because it is small and there is
   * only one.
   */
  #push(lane: Lane, outgoing: Outgoing, last = false): boolean {
    if (this.#closed) return false;
    const bytes = outgoing.payload.length + ITEM_OVERHEAD_BYTES;
    const class_bytes = this.#class_bytes![lane.send_class];
    const fits =
      (class_bytes === 0 || class_bytes + bytes <= this.#boundOf(lane.send_class)) &&
      (lane.bytes === 0 || lane.bytes + bytes <= lane.bytes_max);
    if (!fits && !last) return false;
    lane.waiting.push(outgoing);
    lane.bytes += bytes;
    this.#class_bytes![lane.send_class] += bytes;
    this.#waiting += 1;
    this.#pump();
    return true;
  }

  #event(): void {
    if (this.#closed) return;
    this.#pump();
    this.on_room?.();
  }

  #pump(): void {
    if (this.#waiting === 0) return;
    for (const send_class of SEND_CLASSES) if (!this.#pumpClass(send_class)) return;
  }

  /** Sends frames of a class. Returns false if later classes must wait, because the socket or the bulk window is full. */
  #pumpClass(send_class: SendClass): boolean {
    const lanes = this.#order![send_class];
    let idle = 0;
    while (idle < lanes.length) {
      if (this.#socket.bufferedAmount >= SOCKET_BYTES_MAX[send_class]) return false;
      // Serve channels round-robin: move the channel that is served now to the end.
      const lane = lanes.shift()!;
      lanes.push(lane);
      const head = lane.waiting[0];
      if (head === undefined || this.#awaitsCredit(lane, head)) {
        idle += 1;
        continue;
      }
      if (!this.#sendSome(lane, head)) return false;
      idle = 0;
    }
    return true;
  }

  /**
   * Returns whether data must wait for credit. A message that fits in one frame is not split: more credit is certain to arrive, and the
   * receiver copies split messages twice.
   */
  #awaitsCredit({ credit, window, send_class }: Lane, { type, payload, offset }: Outgoing): boolean {
    if (type !== FrameType.DATA || credit >= payload.length - offset) return false;
    if (credit === 0) return true;
    const slice = this.paced && isBulk(send_class) ? (this.#meter?.slice ?? SLOW_SLICE_BYTES) : FRAME_PAYLOAD_BYTES_MAX;
    const fits_frame = offset === 0 && payload.length <= Math.min(slice, FRAME_PAYLOAD_BYTES_MAX);
    return fits_frame && window - credit >= GRANT_BYTES;
  }

  /** Sends the next frame of a channel. Returns false if bulk data must wait. */
  #sendSome(lane: Lane, head: Outgoing): boolean {
    if (head.type !== FrameType.DATA) {
      this.#left(lane, head, head.payload.length);
      this.#send(head.type, head.channel, head.payload, head.flags);
      if (head.type === FrameType.CLOSE) this.dropChannel(lane.channel);
      return true;
    }
    if (isBulk(lane.send_class) && this.#isOverLimit()) return false;
    const left = head.payload.length - head.offset;
    const paced = this.paced && isBulk(lane.send_class);
    let count = Math.min(left, FRAME_PAYLOAD_BYTES_MAX, lane.credit);
    if (paced) {
      const meter = (this.#meter ??= new RateMeter());
      const free = meter.budget - meter.in_flight;
      // Wait instead of sending a slice that is too small to be worth its header.
      if (free < Math.min(count, SLOW_SLICE_BYTES)) return false;
      count = Math.min(count, meter.slice, free);
    }
    const part = head.payload.subarray(head.offset, head.offset + count);
    this.#left(lane, head, count);
    lane.credit -= count;
    if (paced) this.#meter!.sent(count, this.#options.now(), this.#waiting === 0);
    this.#send(FrameType.DATA, head.channel, part, head.flags | (count < left ? FLAG_MORE : 0) | (paced ? FLAG_BULK : 0));
    return true;
  }

  /** Returns whether bulk must wait because of the rate limit. If so, a timer resumes sending when bulk is allowed again. */
  #isOverLimit(): boolean {
    const { limit } = this.#options;
    const wait_ms = limit?.spend(0) ?? 0;
    if (limit === undefined || wait_ms === 0) return false;
    this.#limit_timer ??= limit.setTimer(wait_ms, () => {
      this.#limit_timer = undefined;
      this.#event();
    });
    return true;
  }

  #left(lane: Lane, head: Outgoing, count: number): void {
    head.offset += count;
    const is_last = head.offset >= head.payload.length;
    const cost = is_last ? count + ITEM_OVERHEAD_BYTES : count;
    lane.bytes -= cost;
    this.#class_bytes![lane.send_class] -= cost;
    if (!is_last) return;
    lane.waiting.shift();
    this.#waiting -= 1;
  }

  #send(type: FrameType, channel: number, payload: FramePayload, flags: number): void {
    const { begin, limit } = this.#options;
    limit?.spend(FRAME_HEADER_BYTES + payloadBytes(payload));
    if (begin === undefined && this.on_room === undefined && this.#socket.bufferedAmount < NOTIFY_BYTES)
      return this.#socket.sendFrame(type, channel, payload, flags);
    const ended = begin?.();
    this.#socket.sendFrame(type, channel, payload, flags, (error) => {
      ended?.();
      // Ignore errors here. An error also closes the socket, and its close event ends the session.
      if (!error) this.#event();
    });
  }
}
