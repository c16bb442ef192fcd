import { type Frame, FrameError, MessageAssembler } from "./frame.ts";
import { ReceiveMemory } from "./receive-memory.ts";
import { ReceiveWindow } from "./receive-window.ts";

/** Closes a channel whose messages wait unread and are so small that their number costs too much memory. */
const CLOSE_TOO_MUCH = 4429;

/** Why a channel ended. Codes as of WebSocket: 1000 in good order, 4410 not available here, 1006 with the link. */
export interface ChannelEnd {
  code: number;
  reason: string;
}

/** A channel that the other end did not accept. */
export class ChannelRefused extends Error {
  readonly code: number;

  constructor({ code, reason }: ChannelEnd) {
    super(reason);
    this.code = code;
  }
}

/** What a channel needs of its link. */
export interface ChannelLink {
  /** False when there is no room yet. */
  send(channel: Channel, message: Uint8Array): boolean;
  /** Something that was sent has not left the queue. */
  waiting(channel: Channel): boolean;
  grant(channel: Channel, bytes: number): void;
  /** `wholly`: what was written before still goes out. */
  end(channel: Channel, end: ChannelEnd, wholly: boolean): void;
}

/** One stream over a link, both ways: messages in order, as many as the other end takes. */
export class Channel implements AsyncIterable<Uint8Array> {
  readonly id: number;
  readonly kind: string;
  /** Resolves when either end, or the link, has ended it. */
  readonly ended: Promise<ChannelEnd>;
  readonly #link: ChannelLink;
  readonly #window = new ReceiveWindow();
  readonly #memory: ReceiveMemory;
  readonly #assembler: MessageAssembler;
  readonly #resolve_ended: (end: ChannelEnd) => void;
  #end: ChannelEnd | undefined;
  /** Messages that nobody has read, with what of each is still to be credited. */
  #arrived: { message: Uint8Array; owed: number; cost: number }[] = [];
  /** Bytes of the message that is arriving which are still to be credited. */
  #owed_parts = 0;
  #reader: ((message: Uint8Array | undefined) => void) | undefined;
  #drainer: PromiseWithResolvers<boolean> | undefined;
  #writer: { message: Uint8Array; resolve: (written: boolean) => void } | undefined;

  constructor(link: ChannelLink, id: number, kind: string, memory = new ReceiveMemory()) {
    this.#memory = memory;
    this.#assembler = new MessageAssembler({ memory });
    const { promise, resolve } = Promise.withResolvers<ChannelEnd>();
    this.#link = link;
    this.id = id;
    this.kind = kind;
    this.ended = promise;
    this.#resolve_ended = resolve;
  }

  /** Resolves with true once there was room for the message, with false when the channel ended before. One write at a time. */
  write(message: Uint8Array): Promise<boolean> {
    if (this.#writer !== undefined) throw new Error("a write to a channel has to be awaited before the next");
    if (this.#end !== undefined) return Promise.resolve(false);
    if (this.#link.send(this, message)) return Promise.resolve(true);
    return new Promise((resolve) => (this.#writer = { message, resolve }));
  }

  /** Resolves with true once all that was written has left this end's queue, with false when the channel ended before. */
  drained(): Promise<boolean> {
    if (this.#end !== undefined) return Promise.resolve(false);
    if (this.#writer === undefined && !this.#link.waiting(this)) return Promise.resolve(true);
    this.#drainer ??= Promise.withResolvers();
    return this.#drainer.promise;
  }

  /** The next message, or undefined when there are no more. Reading is what gives the other end credit to send on. */
  read(): Promise<Uint8Array | undefined> {
    if (this.#reader !== undefined) throw new Error("a read of a channel has to be awaited before the next");
    const first = this.#arrived.shift();
    if (first !== undefined) {
      this.#memory.release(first.cost);
      this.#consumed(first.owed);
      if (this.#arrived.length === 0) this.#creditParts();
      return Promise.resolve(first.message);
    }
    if (this.#end !== undefined) return Promise.resolve(undefined);
    return new Promise((resolve) => (this.#reader = resolve));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for (let message = await this.read(); message !== undefined; message = await this.read()) yield message;
  }

  /** Ends the channel after what was written. */
  close(code = 1000, reason = ""): void {
    this.#endLocally({ code, reason }, true);
  }

  /** Ends the channel at once; what waits is lost. */
  reset(code: number, reason: string): void {
    this.#endLocally({ code, reason }, false);
  }

  /** The link hands in a DATA frame. Throws FrameError when the other end sends beyond its credit. */
  receive(frame: Frame): void {
    const { length } = frame.payload;
    if (!this.#window.arrived(length)) throw new FrameError(`channel ${frame.channel} was sent more than its credit`);
    const message = this.#assembler.push(frame);
    this.#owed_parts += length;
    if (message === undefined) {
      // A message may be larger than the window: its parts are dealt with as they come, unless others wait to be read before it.
      if (this.#arrived.length === 0) this.#creditParts();
      return;
    }
    const reader = this.#reader;
    if (reader === undefined) return this.#keep(message);
    this.#reader = undefined;
    this.#creditParts();
    reader(message);
  }

  /** Frames have left: what waits is tried again. */
  retry(): void {
    const writer = this.#writer;
    if (writer !== undefined) {
      if (!this.#link.send(this, writer.message)) return;
      this.#writer = undefined;
      writer.resolve(true);
    }
    if (this.#drainer === undefined || this.#link.waiting(this)) return;
    this.#drainer.resolve(true);
    this.#drainer = undefined;
  }

  /** The other end, or the link, has ended it: what arrived can still be read. */
  endedBy(end: ChannelEnd): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#assembler.clear();
    // No more can arrive: what is left belongs to the reader, which may never read it.
    this.#releaseArrived();
    this.#writer?.resolve(false);
    this.#writer = undefined;
    this.#drainer?.resolve(false);
    this.#drainer = undefined;
    this.#reader?.(undefined);
    this.#reader = undefined;
    this.#resolve_ended(end);
  }

  #releaseArrived(): void {
    for (const waiting of this.#arrived) {
      this.#memory.release(waiting.cost);
      waiting.cost = 0;
    }
  }

  #keep(message: Uint8Array): void {
    const cost = this.#memory.take(message.length);
    if (cost === undefined) return this.reset(CLOSE_TOO_MUCH, "too many messages wait to be read");
    this.#arrived.push({ message: alone(message), owed: this.#owed_parts, cost });
    this.#owed_parts = 0;
  }

  #creditParts(): void {
    const bytes = this.#owed_parts;
    this.#owed_parts = 0;
    this.#consumed(bytes);
  }

  #consumed(bytes: number): void {
    if (this.#end !== undefined) return;
    const grant = this.#window.consumed(bytes);
    if (grant > 0) this.#link.grant(this, grant);
  }

  #endLocally(end: ChannelEnd, wholly: boolean): void {
    if (this.#end !== undefined) return;
    this.#link.end(this, end, wholly);
    this.#releaseArrived();
    this.#arrived = [];
    this.endedBy(end);
  }
}

/** A message of one frame shares memory with the socket's buffer: copied, unless it is most of that. */
const alone = (message: Uint8Array): Uint8Array => (message.length * 2 >= message.buffer.byteLength ? message : Uint8Array.from(message));
