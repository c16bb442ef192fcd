import type { Clock } from "@roamfleet/clock";
import { ROS_ASK_TIMEOUT_MS } from "./adapter.ts";

/** Maximum wait of a caller for a slow adapter; then it gets the adapter's latest list. */
const CALLER_WAIT_MS = 2_000;

interface LatestAnswerOptions<T> {
  clock: Clock;
  ask: () => readonly T[] | Promise<readonly T[]>;
  failed: (error: unknown) => void;
}

/**
 * A list queried from an adapter, with one query at a time for all callers. The list of an adapter that fails, or takes over ROS_ASK_TIMEOUT_MS, is
 * empty.
 */
export class LatestAnswer<T> {
  latest: readonly T[] = [];
  /** Whether a query has ended, also with a failure, since the adapter connected. */
  is_known = false;
  readonly #options: LatestAnswerOptions<T>;
  #asking: Promise<void> | undefined;

  constructor(options: LatestAnswerOptions<T>) {
    this.#options = options;
  }

  /** Queries the adapter, and waits at most CALLER_WAIT_MS. */
  async refresh(): Promise<readonly T[]> {
    await this.#within(CALLER_WAIT_MS, this.ask(), undefined);
    return this.latest;
  }

  /** Queries the adapter, and resolves when `latest` has the result. */
  ask(): Promise<void> {
    if (this.#asking !== undefined) return this.#asking;
    const asking = this.#ask().then((answer) => {
      // After `clear` the result belongs to an adapter that is gone.
      if (this.#asking !== asking) return;
      this.#asking = undefined;
      this.latest = answer;
      this.is_known = true;
    });
    this.#asking = asking;
    return asking;
  }

  clear(): void {
    this.latest = [];
    this.is_known = false;
    this.#asking = undefined;
  }

  async #ask(): Promise<readonly T[]> {
    try {
      return await this.#within(ROS_ASK_TIMEOUT_MS, Promise.resolve().then(this.#options.ask), []);
    } catch (error) {
      this.#options.failed(error);
      return [];
    }
  }

  async #within<V>(timeout_ms: number, answer: Promise<V>, otherwise: V): Promise<V> {
    const done = new AbortController();
    const late = this.#options.clock.sleep(timeout_ms, done.signal).then(() => otherwise);
    try {
      return await Promise.race([answer, late]);
    } finally {
      done.abort();
    }
  }
}
