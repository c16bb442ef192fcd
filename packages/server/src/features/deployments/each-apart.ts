import { isConnectionLost } from "../../engines/db/index.ts";
import type { Engine } from "./transition.ts";

const FIRST_RETRY_MS = 5_000;
const RETRY_MS_MAX = 300_000;
const LOG_EVERY_MS = 60_000;
/** Failing items that one loop remembers. Beyond that the oldest is forgotten, and so retried early. */
const FAILING_MAX = 1_000;

/** The items of one background loop that failed on this node. Each is left out of the claims until its next attempt. */
export class Postponed {
  readonly #failing = new Map<string, { attempts: number; next_at_ms: number }>();
  #logged_at_ms = -Infinity;

  /** Ids to leave out of the next claim. */
  ids(now: Date): string[] {
    return [...this.#failing].flatMap(([id, { next_at_ms }]) => (next_at_ms > now.getTime() ? [id] : []));
  }

  succeeded(id: string): void {
    this.#failing.delete(id);
  }

  /** Postpones the item with exponential backoff. Returns whether the failure should be logged: once a minute. */
  failed(id: string, now: Date): boolean {
    const attempts = (this.#failing.get(id)?.attempts ?? 0) + 1;
    this.#failing.delete(id);
    this.#failing.set(id, { attempts, next_at_ms: now.getTime() + Math.min(RETRY_MS_MAX, FIRST_RETRY_MS * 2 ** (attempts - 1)) });
    const [oldest] = this.#failing.keys();
    if (this.#failing.size > FAILING_MAX && oldest !== undefined) this.#failing.delete(oldest);
    if (now.getTime() - this.#logged_at_ms < LOG_EVERY_MS) return false;
    this.#logged_at_ms = now.getTime();
    return true;
  }
}

/**
 * Does the work for each item independently: a failing item is postponed with backoff and logged. Throws only if the connection to the
 * database is lost.
 */
export async function eachApart<T extends { org_id: string }>(
  { clock, log }: Pick<Engine, "clock" | "log">,
  postponed: Postponed,
  items: Iterable<T>,
  idOf: (item: T) => string,
  work: (item: T) => Promise<void>,
): Promise<void> {
  for (const item of items) {
    const id = idOf(item);
    try {
      await work(item);
      postponed.succeeded(id);
    } catch (error) {
      if (isConnectionLost(error)) throw error;
      if (postponed.failed(id, clock.now())) log.error({ err: error, org_id: item.org_id, id }, "background work failed for one item");
    }
  }
}
