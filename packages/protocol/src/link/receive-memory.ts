/** Bytes added to the cost of each part, message and frame, so that empty ones also count against the limits. */
export const ITEM_OVERHEAD_BYTES = 256;
/** Limit of received and unread data of one link: parts of messages, and messages of channels. */
export const LINK_RECEIVE_BYTES_MAX = 16 * 1024 * 1024;

export interface ReceiveMemoryOptions {
  bytes_max?: number;
  /** Called with each change of the cost, so that links can share a budget. */
  changed?: (bytes: number) => void;
}

/** Counts the received data that a link stores. Uses no memory when idle. */
export class ReceiveMemory {
  readonly #bytes_max: number;
  readonly #changed: ((bytes: number) => void) | undefined;
  #bytes = 0;

  constructor({ bytes_max = LINK_RECEIVE_BYTES_MAX, changed }: ReceiveMemoryOptions = {}) {
    this.#bytes_max = bytes_max;
    this.#changed = changed;
  }

  /** Cost of the stored data, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts one more item of `bytes` bytes; returns its cost, or undefined if it exceeds the limit and must not be stored. */
  take(bytes: number): number | undefined {
    const cost = bytes + ITEM_OVERHEAD_BYTES;
    if (this.#bytes + cost > this.#bytes_max) return undefined;
    this.#bytes += cost;
    this.#changed?.(cost);
    return cost;
  }

  /** Releases a cost that `take` returned. */
  release(cost: number): void {
    if (cost === 0) return;
    this.#bytes -= cost;
    this.#changed?.(-cost);
  }
}

/** Maximum bytes of one channel that are sent but not consumed by the receiver. */
export const CHANNEL_WINDOW_BYTES = 256 * 1024;
/** Credit is granted in portions of this size: large enough to need few frames, small enough that the sender never runs out. */
const GRANT_BYTES = CHANNEL_WINDOW_BYTES / 4;

/** The receiver's side of a channel's credit: received and consumed bytes. */
export class ReceiveWindow {
  #unconsumed = 0;
  #owed = 0;

  /** Counts received bytes; returns false if the sender had no credit for them. */
  arrived(bytes: number): boolean {
    this.#unconsumed += bytes;
    return this.#unconsumed <= CHANNEL_WINDOW_BYTES;
  }

  /** Counts consumed bytes; returns the credit to grant now, or 0. */
  consumed(bytes: number): number {
    this.#owed += bytes;
    if (this.#owed < GRANT_BYTES) return 0;
    const grant = this.#owed;
    this.#owed = 0;
    // Subtracts granted credit only: bytes whose credit is still owed count as unconsumed, as the sender cannot use that credit yet.
    this.#unconsumed -= grant;
    return grant;
  }
}
