import type { Clock } from "@roamfleet/clock";
import { LRUCache } from "lru-cache";

/** How long a result is cached. A revoked token is refused within 2 s on every node. */
const REMEMBERED_MS = 1_000;
export const REMEMBERED_SECRETS_MAX = 20_000;

/** A cache of lookups by the SHA-256 of secrets, for 1 s. */
export class Remembered<T extends object> {
  readonly #clock: Clock;
  readonly #lookUp: (hash: Buffer) => Promise<T>;
  readonly #known = new LRUCache<string, Promise<T>>({ max: REMEMBERED_SECRETS_MAX });
  readonly #looked_up_at = new WeakMap<Promise<T>, number>();

  constructor(clock: Clock, lookUp: (hash: Buffer) => Promise<T>) {
    this.#clock = clock;
    this.#lookUp = lookUp;
  }

  get(hash: Buffer): Promise<T> {
    const key = hash.toString("latin1");
    const known = this.#known.get(key);
    // A running lookup is shared: a thousand concurrent requests cause one query.
    const at = known === undefined ? undefined : this.#looked_up_at.get(known);
    if (known !== undefined && (at === undefined || this.#clock.monotonic() - at < REMEMBERED_MS)) return known;
    const began_at = this.#clock.monotonic();
    const looking = this.#lookUp(hash);
    this.#known.set(key, looking);
    looking.then(
      () => this.#looked_up_at.set(looking, began_at),
      () => {
        if (this.#known.peek(key) === looking) this.#known.delete(key);
      },
    );
    return looking;
  }

  /** Makes the next `get` start a new lookup, even if one is running. */
  forget(hash: Buffer): void {
    this.#known.delete(hash.toString("latin1"));
  }
}
