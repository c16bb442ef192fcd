import type { Change } from "@roamfleet/protocol/routes";
import type { PlacedChange } from "./reach.ts";

/** Changes kept for slow and reconnecting readers: at most 8 MB for each org that has readers. */
const RING_CHANGES_MAX = 10_000;

/**
 * A bounded buffer with the latest changes of one org on this node. The changes are numbered, so a reader can detect that older ones were
 * overwritten.
 */
export class Ring {
  /** Unique id of this ring, so that event ids of another ring are not accepted. */
  readonly #boot: string;
  readonly #size: number;
  readonly #kept: (PlacedChange & { frame?: string })[];
  /** Number of the next change. */
  #next = 1;
  /** Number of the oldest change that is kept. */
  #first = 1;

  constructor(boot: string, size = RING_CHANGES_MAX) {
    this.#boot = boot;
    this.#size = size;
    this.#kept = [];
  }

  /** Number of the newest change; 0 before the first one. */
  get position(): number {
    return this.#next - 1;
  }

  /** Whether the changes from this number on fill half of the ring. Then the first of them will soon be overwritten. */
  isHalfFull(seq: number): boolean {
    return this.#next - seq >= this.#size / 2;
  }

  append(change: PlacedChange): void {
    this.#kept[this.#next % this.#size] = change;
    this.#next += 1;
    if (this.#next - this.#first > this.#size) this.#first = this.#next - this.#size;
  }

  /** Empties the ring, because an unknown number of changes was missed. Skips one number, so that every reader detects the loss. */
  lose(): void {
    this.#next += 1;
    this.#first = this.#next;
    this.#kept.length = 0;
  }

  /** Whether all changes from this number on are kept. */
  has(seq: number): boolean {
    return seq >= this.#first && seq <= this.#next;
  }

  at(seq: number): PlacedChange | undefined {
    return seq >= this.#first && seq < this.#next ? this.#kept[seq % this.#size] : undefined;
  }

  /** Returns all kept changes from this number on. */
  from(seq: number): PlacedChange[] {
    const changes: PlacedChange[] = [];
    for (let at = Math.max(seq, this.#first); at < this.#next; at += 1) changes.push(this.at(at) as PlacedChange);
    return changes;
  }

  idOf(seq: number): string {
    return `${this.#boot}-${seq}`;
  }

  /** Returns the number of the change that an event id refers to. Returns undefined if the id is not from this ring. */
  numberOf(id: string): number | undefined {
    const dash = id.lastIndexOf("-");
    const digits = id.slice(dash + 1);
    if (dash < 0 || id.slice(0, dash) !== this.#boot || !/^\d{1,15}$/.test(digits)) return undefined;
    return Number(digits) < this.#next ? Number(digits) : undefined;
  }

  /** Returns the SSE frame of a change. Caches the frame for readers that see the whole change. */
  frameOf(seq: number, seen: Change): string {
    const kept: (PlacedChange & { frame?: string }) | undefined = this.at(seq);
    if (kept?.change !== seen) return changeFrame(this.idOf(seq), seen);
    return (kept.frame ??= changeFrame(this.idOf(seq), seen));
  }
}

const NOT_SHOWN = (key: string, value: unknown): unknown => (key === "places" ? undefined : value);

const changeFrame = (id: string, change: Change): string => `id: ${id}\nevent: change\ndata: ${JSON.stringify(change, NOT_SHOWN)}\n\n`;

/** Returns the SSE frame of an event other than a change. `data` is formatted as JSON, which contains no line break. */
export const frame = (id: string | undefined, event: string, data: unknown): string =>
  `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data, NOT_SHOWN)}\n\n`;
