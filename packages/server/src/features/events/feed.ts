import type { Plane } from "../../context.ts";
import { isListOf, isText, readHint } from "../../engines/bus/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import { type AnnouncedChange, CHANGES_PER_MESSAGE_MAX, changesSubject } from "./announce.ts";
import { isLimited, place, placedByPublisher, type PlacedChange } from "./reach.ts";
import type { Reader } from "./reader.ts";
import { Ring } from "./ring.ts";

const isChange = (change: unknown): boolean =>
  typeof change === "object" &&
  change !== null &&
  ["kind", "id", "change"].every((field) => isText((change as Record<string, unknown>)[field]));

/** Maximum changes queued while their places are looked up in the database. Beyond that, all are dropped and the readers reload. */
const WAITING_CHANGES_MAX = 2 * CHANGES_PER_MESSAGE_MAX;

type FeedPlane = Pick<Plane, "bus" | "db" | "findPlaces" | "log" | "id" | "clock">;

/**
 * Delivers the changes of one org to its readers on this node. It is created, and subscribes, when the first reader connects. Places of
 * changes are looked up only if readers are limited to places. One lookup serves all these readers and all changes that arrived during the
 * previous lookup.
 */
export class Feed {
  readonly ring: Ring;
  readonly readers = new Set<Reader>();
  /** When the last reader left, by the monotonic clock; undefined while there are readers. */
  idle_since: number | undefined;
  readonly #plane: FeedPlane;
  readonly #org_id: string;
  readonly #unsubscribe: () => void;
  /** Resolves when the subscription to other nodes' changes is active. */
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

  /** Adds a reader, and resumes after the event with this id if possible. */
  async join(reader: Reader, last_event_id: string | undefined): Promise<void> {
    const { ring } = this;
    this.readers.add(reader);
    this.idle_since = undefined;
    reader.once("close", () => {
      this.readers.delete(reader);
      if (this.readers.size === 0) this.idle_since = this.#plane.clock.monotonic();
    });
    // A client that gets `ready` loads the data that it shows, so it must receive every change after that.
    await this.#listening;
    const after = last_event_id === undefined ? undefined : ring.numberOf(last_event_id);
    const resumed = after !== undefined && ring.has(after + 1);
    // Places of changes since the reader joined are looked up anyway. The places of changes that it missed may not have been looked up.
    if (resumed && isLimited(reader.caller)) await this.#place(ring.from(after + 1));
    if (resumed) reader.begin({ after, resumed, lost: false });
    else reader.begin({ after: ring.position, resumed, lost: last_event_id !== undefined });
  }

  /** Reports lost changes to all readers. */
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

  /** Appends the queued changes in order; immediately if no reader is limited to places. */
  async #take(): Promise<void> {
    this.#taking = true;
    try {
      while (this.#waiting.length > 0) {
        const placed = this.#waiting.map(placedByPublisher);
        this.#waiting = [];
        const epoch = this.ring.position;
        if (this.#limited().length > 0) await this.#place(placed);
        // Changes were lost meanwhile: the readers reload everything, including these.
        if (this.ring.position !== epoch) continue;
        for (const change of placed) this.ring.append(change);
        this.#wake();
      }
    } catch (error) {
      this.#plane.log.warn({ err: error, org_id: this.#org_id }, "could not read the sites and fleets of changed objects; clients reload");
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
