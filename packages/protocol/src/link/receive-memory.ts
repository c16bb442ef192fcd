/** Bytes added to the cost of each part, message and frame, so that empty ones also count against the limits. */
export const ITEM_OVERHEAD_BYTES = 256;
/** Maximum bytes of received and unread data of one link: parts of messages, and messages of channels. */
export const LINK_RECEIVE_BYTES_MAX = 16 * 1024 * 1024;

export interface ReceiveMemoryOptions {
  bytes_max?: number;
  /** Called with each change of the memory cost in bytes, so that several links can share a budget. */
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

  /** Adds an item of `bytes` bytes to the budget. Returns its cost, or undefined if the item exceeds the limit and must not be stored. */
  take(bytes: number): number | undefined {
    const cost = bytes + ITEM_OVERHEAD_BYTES;
    if (this.#bytes + cost > this.#bytes_max) return undefined;
    this.#bytes += cost;
    this.#changed?.(cost);
    return cost;
  }

  /** Returns the cost of an item, as returned by `take`, to the budget. */
  release(cost: number): void {
    if (cost === 0) return;
    this.#bytes -= cost;
    this.#changed?.(-cost);
  }
}

/** Maximum bytes of one channel that are sent but not consumed by the receiver. */
export const CHANNEL_WINDOW_BYTES = 256 * 1024;
/**
 * Credit is granted in portions of this many bytes. The portions are large enough that few frames are needed, and small enough that a
 * sender gets credit for a whole frame before its window is used.
 */
export const GRANT_BYTES = CHANNEL_WINDOW_BYTES / 4;

/** Tracks a channel's credit at the receiver: the bytes received and the bytes consumed. */
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
    // Subtract only the granted credit. Bytes without granted credit still count as unconsumed, because the sender cannot use that credit
    // yet.
    this.#unconsumed -= grant;
    return grant;
  }
}
