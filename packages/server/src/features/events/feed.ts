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

/**
 * Maximum changes queued while the sites and fleets of their objects are looked up in the database. If there are more, all are dropped and
 * the readers are notified to reload.
 */
const WAITING_CHANGES_MAX = 2 * CHANGES_PER_MESSAGE_MAX;

type FeedPlane = Pick<Plane, "bus" | "db" | "findPlaces" | "log" | "id" | "clock">;

/**
 * Delivers the changes of one org to its readers on this node. It is created, and subscribes to the bus, when the first reader connects.
 * The sites and fleets of changed objects are looked up only while a reader is limited to certain sites or fleets. One lookup serves all
 * readers, and all changes that arrived during the previous lookup.
 */
export class Feed {
  readonly ring: Ring;
  readonly readers = new Set<Reader>();
  /** When the last reader disconnected, by the monotonic clock. Undefined while there are readers. */
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

  /** Adds a reader. If possible, resumes after the event with the id `last_event_id`. */
  async join(reader: Reader, last_event_id: string | undefined): Promise<void> {
    const { ring } = this;
    this.readers.add(reader);
    this.idle_since = undefined;
    reader.once("close", () => {
      this.readers.delete(reader);
      if (this.readers.size === 0) this.idle_since = this.#plane.clock.monotonic();
    });
    // A client that gets `ready` loads the data that it shows, so it must receive every change from then on.
    await this.#listening;
    const after = last_event_id === undefined ? undefined : ring.numberOf(last_event_id);
    const resumed = after !== undefined && ring.has(after + 1);
    // The changes that the reader missed may have arrived while no reader was limited to sites or fleets. Then the sites and fleets of
    // these changes were not looked up.
    if (resumed && isLimited(reader.caller)) await this.#place(ring.from(after + 1));
    if (resumed) reader.begin({ after, resumed, lost: false });
    else reader.begin({ after: ring.position, resumed, lost: last_event_id !== undefined });
  }

  /** Drops all changes and notifies the readers that changes were lost. */
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

  /**
   * Appends the queued changes to the ring, in order. First looks up the sites and fleets of the changes if a reader is limited to certain
   * sites or fleets.
   */
  async #take(): Promise<void> {
    this.#taking = true;
    try {
      while (this.#waiting.length > 0) {
        const placed = this.#waiting.map(placedByPublisher);
        this.#waiting = [];
        const epoch = this.ring.position;
        if (this.#limited().length > 0) await this.#place(placed);
        // If changes were lost during the lookup, the readers reload everything, so these changes need not be sent.
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
