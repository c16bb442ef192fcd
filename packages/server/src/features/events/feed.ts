import type { Plane } from "../../context.ts";
import { isListOf, isText, readHint } from "../../engines/bus/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import { type AnnouncedChange, CHANGES_PER_MESSAGE_MAX, changesSubject } from "./announce.ts";
import { isLimited, place, placedAsTold, type PlacedChange } from "./reach.ts";
import type { Reader } from "./reader.ts";
import { Ring } from "./ring.ts";

const isChange = (change: unknown): boolean =>
  typeof change === "object" &&
  change !== null &&
  ["kind", "id", "change"].every((field) => isText((change as Record<string, unknown>)[field]));

/** Changes that wait while the database is asked where others are; beyond, all are lost. */
const WAITING_CHANGES_MAX = 2 * CHANGES_PER_MESSAGE_MAX;

export type FeedPlane = Pick<Plane, "bus" | "db" | "findPlaces" | "log" | "id" | "clock">;

/**
 * The changes of one org, for whoever reads them on this node. It listens from its first reader on. Where a change is is
 * looked up only for readers limited to places, once for all of them, and for all changes that came meanwhile together.
 */
export class Feed {
  readonly ring: Ring;
  readonly readers = new Set<Reader>();
  /** Since when nobody reads, by the monotonic clock; undefined while somebody does. */
  idle_since: number | undefined;
  readonly #plane: FeedPlane;
  readonly #org_id: string;
  readonly #unsubscribe: () => void;
  /** Resolves when the changes that other nodes tell of arrive. */
  readonly #listening: Promise<void>;
  #waiting: AnnouncedChange[] = [];
  #taking = false;

  constructor(plane: FeedPlane, org_id: string) {
    this.#plane = plane;
    this.#org_id = org_id;
    this.ring = new Ring(plane.id("feed"));
    this.idle_since = plane.clock.monotonic();
    this.#unsubscribe = plane.bus.subscribe(changesSubject(org_id), (message) => {
      const lost = typeof message === "object" && message !== null && "lost" in message;
      if (lost) this.lose();
      else this.#hear(readHint<{ changes: AnnouncedChange[] }>(message, { changes: isListOf(isChange) }).changes);
    });
    this.#listening = plane.bus.subscribed();
  }

  /** Lets a reader in, behind the event of this id when that is possible. */
  async join(reader: Reader, last_event_id: string | undefined): Promise<void> {
    const { ring } = this;
    this.readers.add(reader);
    this.idle_since = undefined;
    reader.once("close", () => {
      this.readers.delete(reader);
      if (this.readers.size === 0) this.idle_since = this.#plane.clock.monotonic();
    });
    // Whoever is ready reads what it shows, and must be told of all that changes after that.
    await this.#listening;
    const after = last_event_id === undefined ? undefined : ring.numberOf(last_event_id);
    const resumed = after !== undefined && ring.has(after + 1);
    // Since it was let in what comes is looked up for it, too; what it missed may not have been.
    if (resumed && isLimited(reader.caller)) await this.#place(ring.from(after + 1));
    if (resumed) reader.begin({ after, resumed, lost: false });
    else reader.begin({ after: ring.position, resumed, lost: last_event_id !== undefined });
  }

  /** Nobody knows what changed: each reader is told so. */
  lose(): void {
    this.#waiting = [];
    this.ring.lose();
    this.#wake();
  }

  close(): void {
    this.#unsubscribe();
  }

  #hear(changes: readonly AnnouncedChange[]): void {
    if (this.#waiting.length + changes.length > WAITING_CHANGES_MAX) return this.lose();
    this.#waiting.push(...changes);
    if (!this.#taking) void this.#take();
  }

  /** In the order in which they came; without readers limited to places at once. */
  async #take(): Promise<void> {
    this.#taking = true;
    try {
      while (this.#waiting.length > 0) {
        const placed = this.#waiting.map(placedAsTold);
        this.#waiting = [];
        const epoch = this.ring.position;
        if (this.#limited().length > 0) await this.#place(placed);
        // Lost meanwhile: then these are among what is read again.
        if (this.ring.position !== epoch) continue;
        for (const change of placed) this.ring.append(change);
        this.#wake();
      }
    } catch (error) {
      this.#plane.log.warn({ err: error, org_id: this.#org_id }, "where changes are could not be looked up: their readers read again");
      this.lose();
    } finally {
      this.#taking = false;
    }
  }

  #limited(): Caller[] {
    return Array.from(this.readers, ({ caller }) => caller).filter(isLimited);
  }

  async #place(changes: readonly PlacedChange[]): Promise<void> {
    const { db, findPlaces } = this.#plane;
    await place(findPlaces, db.forOrg(this.#org_id), this.#org_id, changes, this.#limited());
  }

  #wake(): void {
    for (const reader of this.readers) reader.wake();
  }
}
