import type { Change } from "@roamfleet/protocol/routes";
import type { PlacedChange } from "./reach.ts";

/** Changes of an org that are kept for those who read slowly or come back: 8 MB at most, for orgs that somebody watches. */
export const RING_CHANGES_MAX = 10_000;

/** The last changes of one org on this node, numbered. Bounded: what is older is gone, and whoever wants it is told so. */
export class Ring {
  /** Of this ring and no other, so that a number of another one means nothing here. */
  readonly #boot: string;
  readonly #size: number;
  readonly #kept: (PlacedChange & { frame?: string })[];
  /** Number of the next change. */
  #next = 1;
  /** Number of the oldest that is still here. */
  #first = 1;

  constructor(boot: string, size = RING_CHANGES_MAX) {
    this.#boot = boot;
    this.#size = size;
    this.#kept = [];
  }

  /** Number of the newest change; 0 before there was one. */
  get position(): number {
    return this.#next - 1;
  }

  /** Whether so many changes came from this number on that the ring will lose the first of them soon. */
  isHalfFull(seq: number): boolean {
    return this.#next - seq >= this.#size / 2;
  }

  append(change: PlacedChange): void {
    this.#kept[this.#next % this.#size] = change;
    this.#next += 1;
    if (this.#next - this.#first > this.#size) this.#first = this.#next - this.#size;
  }

  /** Some changes are missing that nobody will tell of: who has not read all until here has lost something. */
  lose(): void {
    this.#next += 1;
    this.#first = this.#next;
    this.#kept.length = 0;
  }

  /** Whether everything from this number on is here. */
  has(seq: number): boolean {
    return seq >= this.#first && seq <= this.#next;
  }

  at(seq: number): PlacedChange | undefined {
    return seq >= this.#first && seq < this.#next ? this.#kept[seq % this.#size] : undefined;
  }

  /** All from this number on. */
  from(seq: number): PlacedChange[] {
    const changes: PlacedChange[] = [];
    for (let at = Math.max(seq, this.#first); at < this.#next; at += 1) changes.push(this.at(at) as PlacedChange);
    return changes;
  }

  idOf(seq: number): string {
    return `${this.#boot}-${seq}`;
  }

  /** The number in an id that this ring gave; undefined for any other text. */
  numberOf(id: string): number | undefined {
    const dash = id.lastIndexOf("-");
    const digits = id.slice(dash + 1);
    if (dash < 0 || id.slice(0, dash) !== this.#boot || !/^\d{1,15}$/.test(digits)) return undefined;
    return Number(digits) < this.#next ? Number(digits) : undefined;
  }

  /** The change as it goes out, made once for all who see the whole of it. */
  frameOf(seq: number, seen: Change): string {
    const kept: (PlacedChange & { frame?: string }) | undefined = this.at(seq);
    if (kept?.change !== seen) return changeFrame(this.idOf(seq), seen);
    return (kept.frame ??= changeFrame(this.idOf(seq), seen));
  }
}

const NOT_SHOWN = (key: string, value: unknown): unknown => (key === "places" ? undefined : value);

const changeFrame = (id: string, change: Change): string => `id: ${id}\nevent: change\ndata: ${JSON.stringify(change, NOT_SHOWN)}\n\n`;

/** Any other event. `data` contains no line break: it is JSON. */
export const frame = (id: string | undefined, event: string, data: unknown): string =>
  `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data, NOT_SHOWN)}\n\n`;
