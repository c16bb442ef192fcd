/** What each part, message and frame costs besides its bytes, so that empty ones are not free. */
export const ITEM_OVERHEAD_BYTES = 256;
/** Cost of everything that one link has received and that has not been read yet: parts of messages, and messages of channels. */
export const LINK_RECEIVE_BYTES_MAX = 16 * 1024 * 1024;

export interface ReceiveMemoryOptions {
  bytes_max?: number;
  /** Called with each change of the cost, so that links can share a budget. */
  changed?: (bytes: number) => void;
}

/** Counts what a link keeps of what the other end sent. Idle it holds nothing. */
export class ReceiveMemory {
  readonly #bytes_max: number;
  readonly #changed: ((bytes: number) => void) | undefined;
  #bytes = 0;

  constructor({ bytes_max = LINK_RECEIVE_BYTES_MAX, changed }: ReceiveMemoryOptions = {}) {
    this.#bytes_max = bytes_max;
    this.#changed = changed;
  }

  /** Cost of what is kept, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts one more item of `bytes` bytes; returns its cost, or undefined when it exceeds the bound and must not be kept. */
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
