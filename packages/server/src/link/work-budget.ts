/** Bytes of messages that may wait for the database, of all links of a node together; read and parsed they take about five times as much. */
const WORK_BYTES_MAX = 32 * 1024 * 1024;

/** Whoever can be told to read no further, and to go on. */
export interface Reader {
  hold(): void;
  goOn(): void;
}

/**
 * What the messages of all links of a node may take while they wait. A link's own bound is no bound for fifteen thousand of
 * them: while the database is slow whoever sends more is not read any further, until half of it has been dealt with. What
 * is not read stays on the robots' disks.
 */
export class WorkBudget {
  readonly #bytes_max: number;
  readonly #held = new Set<Reader>();
  #bytes = 0;

  constructor(bytes_max = WORK_BYTES_MAX) {
    this.#bytes_max = bytes_max;
  }

  /** Bytes that wait, or are being dealt with. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Links that are not read meanwhile. */
  get held(): number {
    return this.#held.size;
  }

  take(reader: Reader, bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < this.#bytes_max || this.#held.has(reader)) return;
    this.#held.add(reader);
    reader.hold();
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes > this.#bytes_max / 2 || this.#held.size === 0) return;
    const readers = [...this.#held];
    this.#held.clear();
    for (const reader of readers) reader.goOn();
  }
}
