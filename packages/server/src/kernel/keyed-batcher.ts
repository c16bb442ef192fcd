import { type Clock, systemClock, type Timer } from "@roamfleet/clock";
import { retryBisected } from "./isolate-failures.ts";

/**
 * Default of `min_interval_ms`: each batch costs a transaction or more. The interval grows with the last batch, so that thousands of
 * connecting robots share few batches, while a few items of a key wait only a short time.
 */
export const INTERVAL_MS = { min: 50, per_item: 10, max: 200 };

const intervalMs = (items: number): number => Math.min(INTERVAL_MS.max, Math.max(INTERVAL_MS.min, items * INTERVAL_MS.per_item));

export interface KeyedBatcherOptions<T, R> {
  /**
   * Clock of the minimum interval. Default: the system clock, even if the server's clock is simulated, because the interval limits the load
   * of the real machine. In a simulation, the interval looks like database latency.
   */
  clock?: Pick<Clock, "monotonic" | "setTimer">;
  /** Minimum interval between the starts of two batches of a key under load. 0: the next batch starts as soon as the previous one ends. */
  min_interval_ms?: number;
  /** Maximum items of a batch. */
  items_max: number;
  /** Maximum concurrent batches, at most one per key. The limit leaves database connections for other work. */
  concurrency_max: number;
  /** Processes all items of a batch and returns a result for each, in order. After a failure it may be called again with fewer items. */
  work: (key: string, items: readonly T[]) => Promise<readonly R[]>;
  /** Two items for which this returns the same value are never in one batch. Default: any items may share a batch. */
  uniqueBy?: (item: T) => string;
  /** Returns whether an error concerns the whole batch, so that it is not bisected. Default: always, which suits work that only reads. */
  affectsAll?: (error: unknown) => boolean;
}

interface Entry<T, R> {
  item: T;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Batches work by key. An item is processed immediately if its key is idle. Items that arrive while a batch of their key runs form the next
 * batch. So thousands of concurrent items need few batches, and a single item has no delay.
 */
export class KeyedBatcher<T, R> {
  readonly #options: KeyedBatcherOptions<T, R>;
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Queued items by key. The key that has waited longest comes first. */
  readonly #queues = new Map<string, Entry<T, R>[]>();
  /** Queues that wait for the interval to end, so that more items can join their batch. */
  readonly #delayed = new Map<string, { queue: Entry<T, R>[]; timer: Timer }>();
  readonly #running = new Set<string>();

  constructor(options: KeyedBatcherOptions<T, R>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Queues an item for the next batch of its key. Resolves with its result, or rejects with the error of `work`. The queue is unbounded:
   * callers must limit their items.
   */
  add(key: string, item: T): Promise<R> {
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const delayed = this.#delayed.get(key);
    const queue = delayed?.queue ?? this.#queues.get(key);
    if (queue === undefined) this.#queues.set(key, [{ item, resolve, reject }]);
    else queue.push({ item, resolve, reject });
    if (delayed === undefined) this.#startBatches();
    else if (!this.#hasRoom(delayed.queue)) this.#endDelay(key);
    return promise;
  }

  #startBatches(): void {
    for (const [key, queue] of this.#queues) {
      if (this.#running.size === this.#options.concurrency_max) return;
      if (this.#running.has(key)) continue;
      const [batch, left] = this.#takeBatch(queue);
      // The rest waits behind the other keys.
      this.#queues.delete(key);
      if (left.length > 0) this.#queues.set(key, left);
      this.#running.add(key);
      const next_at = this.#clock.monotonic() + (this.#options.min_interval_ms ?? intervalMs(batch.length));
      void this.#run(key, batch).then(() => {
        this.#running.delete(key);
        this.#delayUntil(next_at, key);
        this.#startBatches();
      });
    }
  }

  /** Delays the next batch of a key until `next_at`, unless no further item could join it. */
  #delayUntil(next_at: number, key: string): void {
    const queue = this.#queues.get(key);
    const ms = next_at - this.#clock.monotonic();
    if (queue === undefined || ms <= 0 || !this.#hasRoom(queue)) return;
    this.#queues.delete(key);
    this.#delayed.set(key, { queue, timer: this.#clock.setTimer(ms, () => this.#endDelay(key)) });
  }

  #endDelay(key: string): void {
    const delayed = this.#delayed.get(key);
    if (delayed === undefined) return;
    delayed.timer.cancel();
    this.#delayed.delete(key);
    this.#queues.set(key, delayed.queue);
    this.#startBatches();
  }

  /** Returns whether one batch could take the whole queue and another item. */
  #hasRoom(queue: readonly Entry<T, R>[]): boolean {
    const { items_max, uniqueBy } = this.#options;
    if (queue.length >= items_max) return false;
    return uniqueBy === undefined || new Set(queue.map(({ item }) => uniqueBy(item))).size === queue.length;
  }

  #takeBatch(queue: Entry<T, R>[]): [batch: Entry<T, R>[], left: Entry<T, R>[]] {
    const { items_max, uniqueBy } = this.#options;
    if (uniqueBy === undefined) return [queue.splice(0, items_max), queue];
    const [batch, left, names]: [Entry<T, R>[], Entry<T, R>[], Set<string>] = [[], [], new Set()];
    for (const entry of queue) {
      const name = uniqueBy(entry.item);
      if (batch.length === items_max || names.has(name)) left.push(entry);
      else batch.push(entry);
      names.add(name);
    }
    return [batch, left];
  }

  /** Never rejects. */
  #run(key: string, entries: readonly Entry<T, R>[]): Promise<void> {
    const { work, affectsAll = () => true } = this.#options;
    const process = async (some: readonly Entry<T, R>[]): Promise<void> => {
      const results = await work(
        key,
        some.map(({ item }) => item),
      );
      if (results.length !== some.length) throw new Error("the batch did not return a result for each item");
      for (const [i, { resolve }] of some.entries()) resolve(results[i] as R);
    };
    return retryBisected(entries, process, { affectsAll, failed: (some, error) => some.forEach(({ reject }) => reject(error)) });
  }
}
