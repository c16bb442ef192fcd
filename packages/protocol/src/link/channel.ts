import { type Frame, FrameError, MessageAssembler } from "./frame.ts";
import { ReceiveMemory, ReceiveWindow } from "./receive-memory.ts";

/** Close code for a channel whose reader leaves too many small messages unread. */
const CLOSE_TOO_MUCH = 4429;

/** Why a channel closed. The codes are those of WebSocket: 1000 normal end, 4410 not available at this end, 1006 link closed. */
export interface ChannelEnd {
  code: number;
  reason: string;
}

/** Thrown if the other end refused the channel. */
export class ChannelRefused extends Error {
  readonly code: number;

  constructor({ code, reason }: ChannelEnd) {
    super(reason);
    this.code = code;
  }
}

/** The operations of the link that a channel uses. */
export interface ChannelLink {
  /** Queues a message. Returns false if the queue has no room yet. */
  send(channel: Channel, message: Uint8Array): boolean;
  /** Returns whether written data of the channel is still queued. */
  waiting(channel: Channel): boolean;
  grant(channel: Channel, bytes: number): void;
  /** Closes the channel. With `wholly`, data written before is still sent; otherwise it is dropped. */
  end(channel: Channel, end: ChannelEnd, wholly: boolean): void;
}

/** A bidirectional stream over a link: messages in order, limited by the receiver's credit. */
export class Channel implements AsyncIterable<Uint8Array> {
  readonly id: number;
  readonly kind: string;
  /** Resolves when either end has closed the channel, or when the link was closed. */
  readonly ended: Promise<ChannelEnd>;
  readonly #link: ChannelLink;
  readonly #window = new ReceiveWindow();
  readonly #memory: ReceiveMemory;
  readonly #assembler: MessageAssembler;
  readonly #resolve_ended: (end: ChannelEnd) => void;
  #end: ChannelEnd | undefined;
  /**
   * Messages that were received and not read. `owed` is the credit to grant when the message is read, and `cost` its share of the memory
   * budget.
   */
  #arrived: { message: Uint8Array; owed: number; cost: number }[] = [];
  /** Received bytes of an incomplete message for which the sender has not been granted new credit. */
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

  /**
   * Queues a message. Resolves with true when the message is queued, or with false if the channel closes first. Await each write before the
   * next one.
   */
  write(message: Uint8Array): Promise<boolean> {
    if (this.#writer !== undefined) throw new Error("await each write to a channel before the next");
    if (this.#end !== undefined) return Promise.resolve(false);
    if (this.#link.send(this, message)) return Promise.resolve(true);
    return new Promise((resolve) => (this.#writer = { message, resolve }));
  }

  /** Resolves with true when all written data has left the queue of this end, or with false if the channel closes first. */
  drained(): Promise<boolean> {
    if (this.#end !== undefined) return Promise.resolve(false);
    if (this.#writer === undefined && !this.#link.waiting(this)) return Promise.resolve(true);
    this.#drainer ??= Promise.withResolvers();
    return this.#drainer.promise;
  }

  /** Returns the next message, or undefined at the end. Reading grants the other end credit. */
  read(): Promise<Uint8Array | undefined> {
    if (this.#reader !== undefined) throw new Error("await each read of a channel before the next");
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

  /** Closes the channel after all written data is sent. */
  close(code = 1000, reason = ""): void {
    this.#endLocally({ code, reason }, true);
  }

  /** Closes the channel immediately; queued data is lost. */
  reset(code: number, reason: string): void {
    this.#endLocally({ code, reason }, false);
  }

  /** Handles a DATA frame. Throws FrameError if the other end exceeds its credit. */
  receive(frame: Frame): void {
    const { length } = frame.payload;
    if (!this.#window.arrived(length)) throw new FrameError(`channel ${frame.channel} received more than its credit`);
    const message = this.#assembler.push(frame);
    this.#owed_parts += length;
    if (message === undefined) {
      // Grant credit for parts when they arrive, because a message may be larger than the window. But grant none while other messages are
      // unread.
      if (this.#arrived.length === 0) this.#creditParts();
      return;
    }
    const reader = this.#reader;
    if (reader === undefined) return this.#keep(message);
    this.#reader = undefined;
    this.#creditParts();
    reader(message);
  }

  /** Retries blocked writes after frames were sent. */
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

  /** Records that the other end or the link closed the channel. Received messages can still be read. */
  endedBy(end: ChannelEnd): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#assembler.clear();
    // Remove unread messages from the memory budget: no more data can arrive, and the reader may never read them.
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
    if (cost === undefined) return this.reset(CLOSE_TOO_MUCH, "too many unread messages");
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

/**
 * Copies a message that shares the socket's buffer, so that the buffer can be freed. Does not copy a message that is at least half as large
 * as the buffer.
 */
const alone = (message: Uint8Array): Uint8Array => (message.length * 2 >= message.buffer.byteLength ? message : Uint8Array.from(message));
