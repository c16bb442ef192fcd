import { Channel, type ChannelEnd, ChannelRefused } from "./channel.ts";
import { CONTROL_CHANNEL, FLAG_BULK, type Frame, FrameError, FrameType } from "./frame.ts";
import { CHANNEL_WINDOW_BYTES, ReceiveMemory, ReceiveWindow } from "./receive-memory.ts";
import { SEND_CLASSES, type SendClass, type SendQueue } from "./send-queue.ts";

/** Maximum channels of one link. */
export const CHANNELS_MAX = 64;
/** Maximum queues of one link: one for each channel, one for control and one for logs. */
const LANES_MAX = CHANNELS_MAX + 2;
/** Maximum bytes that a channel may queue, so that a stuck channel leaves room for other channels. A single longer message is allowed. */
const CHANNEL_SEND_BYTES_MAX = 64 * 1024;
const OPEN_TIMEOUT_MS = 10_000;
const REASON_CHARACTERS_MAX = 500;
/** Number of received bulk bytes that are acknowledged at a time. It is less than half of the sender's minimum in flight. */
const ACKNOWLEDGE_BYTES = 2 * 1024;

export const CLOSE_NOT_AVAILABLE = 4410;
export const CLOSE_TIMED_OUT = 4408;
const CLOSE_WITH_LINK = 1006;

/**
 * Number of the first channel that each end opens. The server uses even numbers, the robot odd ones. Channel 0 is for control, and 1 for
 * logs.
 */
export const FIRST_CHANNEL = { server: 2, robot: 3 } as const;

/**
 * A handler for channels of one kind that the other end opens. To refuse a channel, it calls `reset` before it returns. `params` are
 * untrusted input. An exception or a rejected promise resets only this channel.
 */
export type StreamSource = (channel: Channel, params: unknown) => void | Promise<void>;

export interface ChannelTableOptions {
  queue: SendQueue;
  end: keyof typeof FIRST_CHANNEL;
  clock: { setTimer(ms: number, work: () => unknown): { cancel(): void } };
  /** Memory budget for all received data of the link. Without it, the channels in this table have a separate budget. */
  memory?: ReceiveMemory;
  /** Handlers for the kinds of channels that the other end may open. */
  sources?: ReadonlyMap<string, StreamSource>;
  /** Called when a handler in `sources` throws. The channel is reset in any case. */
  failed?: (kind: string, error: unknown) => void;
  /** Called when the queue of control frames is full. The other end then reads nothing, so the link is unusable. */
  stuck: () => void;
}

interface Opening {
  channel: Channel;
  accepted: () => void;
  refused: (end: ChannelEnd) => void;
}

/** The channels of one link: opens them, dispatches their frames, and enforces credit in both directions. */
export class ChannelTable {
  readonly #options: ChannelTableOptions;
  readonly #memory: ReceiveMemory;
  readonly #channels = new Map<number, Channel>();
  readonly #opening = new Map<number, Opening>();
  #next: number;
  #newest_of_peer = -1;

  constructor(options: ChannelTableOptions) {
    this.#options = options;
    this.#memory = options.memory ?? new ReceiveMemory();
    this.#next = FIRST_CHANNEL[options.end];
  }

  get size(): number {
    return this.#channels.size;
  }

  /** Number of further channels that can be opened. A closed channel counts as open until its last bytes are sent. */
  get room(): number {
    return Math.min(CHANNELS_MAX, Math.max(0, LANES_MAX - this.#options.queue.channels));
  }

  /** Opens a channel at the other end; rejects with ChannelRefused if it is refused. */
  open(kind: string, send_class: Exclude<SendClass, "control">, params: unknown = {}): Promise<Channel> {
    if (this.#options.queue.channels >= LANES_MAX)
      return Promise.reject(new ChannelRefused({ code: 4429, reason: `a link has at most ${CHANNELS_MAX} channels` }));
    const id = this.#next;
    this.#next += 2;
    const channel = this.#add(id, kind, send_class);
    return new Promise((resolve, reject) => {
      const timeout = this.#options.clock.setTimer(OPEN_TIMEOUT_MS, () =>
        channel.reset(CLOSE_TIMED_OUT, `no response to opening ${kind} after ${OPEN_TIMEOUT_MS / 1000} s`),
      );
      const settled = (): void => {
        timeout.cancel();
        this.#opening.delete(id);
      };
      this.#opening.set(id, {
        channel,
        accepted: () => {
          settled();
          resolve(channel);
        },
        refused: (end) => {
          settled();
          reject(new ChannelRefused(end));
        },
      });
      this.#say(FrameType.OPEN, id, json({ kind, class: send_class, params }));
    });
  }

  /** Handles a frame of a channel other than control and logs. Throws FrameError for a protocol violation. */
  receive(frame: Frame): void {
    if (frame.type === FrameType.OPEN) return this.#opened(frame);
    if (frame.type === FrameType.CREDIT) return this.#credited(frame);
    const channel = this.#channels.get(frame.channel);
    if (channel === undefined) {
      this.#assertKnown(frame.channel);
      // Drop the unsent data of a channel that this end has closed. The data waits for credit, which the other end no longer grants.
      if (frame.type === FrameType.RESET) this.#options.queue.dropChannel(frame.channel);
      return;
    }
    switch (frame.type) {
      case FrameType.DATA:
        return channel.receive(frame);
      case FrameType.ACCEPT:
        return this.#opening.get(frame.channel)?.accepted();
      case FrameType.CLOSE:
      case FrameType.RESET:
        return this.#forget(channel, endOf(frame));
      default:
        throw new FrameError(`frame type ${frame.type} has no channel`);
    }
  }

  /** Retries blocked writes. The send queue calls it when there is room. */
  retry(): void {
    for (const channel of this.#channels.values()) channel.retry();
  }

  /** Closes every channel, because the link is closed. */
  endAll(reason: string): void {
    for (const channel of this.#channels.values()) this.#forget(channel, { code: CLOSE_WITH_LINK, reason });
  }

  #add(id: number, kind: string, send_class: SendClass): Channel {
    this.#options.queue.openChannel(id, send_class, { credit: CHANNEL_WINDOW_BYTES, bytes_max: CHANNEL_SEND_BYTES_MAX });
    const channel = new Channel(this.#link, id, kind, this.#memory);
    this.#channels.set(id, channel);
    return channel;
  }

  readonly #link = {
    send: (channel: Channel, message: Uint8Array): boolean => this.#options.queue.pushMessage(channel.id, message),
    waiting: (channel: Channel): boolean => this.#options.queue.waitingOf(channel.id) > 0,
    grant: (channel: Channel, bytes: number): void => this.#say(FrameType.CREDIT, channel.id, creditOf(bytes)),
    end: (channel: Channel, end: ChannelEnd, wholly: boolean): void => {
      this.#channels.delete(channel.id);
      this.#opening.get(channel.id)?.refused(end);
      if (wholly) return void this.#options.queue.pushClose(channel.id, json(end));
      this.#options.queue.dropChannel(channel.id);
      this.#say(FrameType.RESET, channel.id, json(end));
    },
  };

  #forget(channel: Channel, end: ChannelEnd): void {
    this.#channels.delete(channel.id);
    this.#options.queue.dropChannel(channel.id);
    channel.endedBy(end);
    this.#opening.get(channel.id)?.refused(end);
  }

  #opened(frame: Frame): void {
    const id = frame.channel;
    if (!this.#isOfPeer(id) || id <= this.#newest_of_peer) throw new FrameError(`channel ${id} cannot be opened`);
    this.#newest_of_peer = id;
    const refuse = (code: number, reason: string): void => this.#say(FrameType.RESET, id, json({ code, reason }));
    const { kind, class: send_class, params } = objectOf(frame.payload);
    if (!isStreamClass(send_class)) return refuse(1008, "class is not a stream class");
    const source = typeof kind === "string" ? this.#options.sources?.get(kind) : undefined;
    if (source === undefined) return refuse(CLOSE_NOT_AVAILABLE, "not supported here");
    if (this.#options.queue.channels >= LANES_MAX) return refuse(4429, `a link has at most ${CHANNELS_MAX} channels`);
    const channel = this.#add(id, String(kind), send_class);
    Promise.try(source, channel, params).catch((error: unknown) => {
      this.#options.failed?.(channel.kind, error);
      channel.reset(CLOSE_NOT_AVAILABLE, "this stream failed");
    });
    if (this.#channels.has(id)) this.#say(FrameType.ACCEPT, id, NOTHING);
  }

  #credited(frame: Frame): void {
    if (frame.channel === CONTROL_CHANNEL) {
      if (!this.#options.queue.acknowledge(creditIn(frame))) throw new FrameError("more bytes acknowledged than sent");
    } else if (!this.#options.queue.credit(frame.channel, creditIn(frame), CHANNEL_WINDOW_BYTES)) {
      throw new FrameError(`channel ${frame.channel} received more credit than it has used`);
    }
  }

  /** Throws FrameError for a channel that never existed. Frames of a closed channel may still be in transit. */
  #assertKnown(id: number): void {
    const known = this.#isOfPeer(id) ? id <= this.#newest_of_peer : id >= FIRST_CHANNEL[this.#options.end] && id < this.#next;
    if (!known) throw new FrameError(`channel ${id} is not open`);
  }

  #isOfPeer(id: number): boolean {
    const peer = FIRST_CHANNEL[this.#options.end === "server" ? "robot" : "server"];
    return id >= peer && id % 2 === peer % 2;
  }

  #say(type: FrameType, channel: number, payload: Uint8Array): void {
    if (!this.#options.queue.pushControl(type, channel, payload)) this.#options.stuck();
  }
}

/** Acknowledges received bulk data, so that the other end can measure the rate of the link. Sends nothing until bulk data arrives. */
export class BulkReceipts {
  #owed = 0;

  /** Counts a frame; returns the CREDIT payload for channel 0 to send now, if any. */
  take(frame: Frame): Uint8Array | undefined {
    if ((frame.flags & FLAG_BULK) === 0) return undefined;
    this.#owed += frame.payload.length;
    if (this.#owed < ACKNOWLEDGE_BYTES) return undefined;
    const payload = creditOf(this.#owed);
    this.#owed = 0;
    return payload;
  }
}

/** Checks and grants the credit of the log channel, which is not in the channel table. */
export class CreditGiver {
  readonly #window = new ReceiveWindow();

  /** Throws FrameError if the sender exceeded its credit. */
  arrived(bytes: number): void {
    if (!this.#window.arrived(bytes)) throw new FrameError("the sender exceeded its credit");
  }

  /** Returns the CREDIT payload to send now, if any. */
  consumed(bytes: number): Uint8Array | undefined {
    const grant = this.#window.consumed(bytes);
    return grant === 0 ? undefined : creditOf(grant);
  }
}

const NOTHING = new Uint8Array(0);

function creditOf(bytes: number): Uint8Array {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint32(0, bytes);
  return payload;
}

function creditIn({ payload }: Frame): number {
  if (payload.length !== 4) throw new FrameError(`credit of ${payload.length} bytes is not a number`);
  return new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0);
}

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

function objectOf(payload: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength).toString("utf8"));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    throw new FrameError("the payload is not JSON");
  }
}

function endOf(frame: Frame): ChannelEnd {
  const { code, reason } = frame.payload.length === 0 ? {} : objectOf(frame.payload);
  return {
    code: Number.isInteger(code) ? Number(code) : 1000,
    reason: typeof reason === "string" ? reason.slice(0, REASON_CHARACTERS_MAX) : "",
  };
}

const isStreamClass = (value: unknown): value is Exclude<SendClass, "control"> =>
  value !== "control" && (SEND_CLASSES as readonly unknown[]).includes(value);
