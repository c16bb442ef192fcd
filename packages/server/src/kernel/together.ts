import { type Clock, systemClock, type Timer } from "@roamfleet/clock";
import { inHalves } from "./in-halves.ts";

/**
 * Minimum interval between the starts of two batches of a key under load. Each costs a transaction or more, and the delay is not
 * noticeable.
 */
export const PIECES_EVERY_MS = 50;

export interface TogetherOptions<T, R> {
  /**
   * Default: the real clock, even if the server's is simulated. The interval saves this machine's work, as if the database took a little
   * longer.
   */
  clock?: Pick<Clock, "monotonic" | "setTimer">;
  /** False disables the interval: the next batch of a key starts as soon as the previous one ends. */
  rests?: boolean;
  /** Maximum items of a batch. */
  items_max: number;
  /** Maximum concurrent batches, each of another key, so that other work finds a database connection, too. */
  at_once: number;
  /** Processes all items of a batch and returns a result for each, in order. After a failure it may be called again with fewer of them. */
  work: (key: string, items: readonly T[]) => Promise<readonly R[]>;
  /** Two items of the same name are never in one batch. Default: any items may share a batch. */
  nameOf?: (item: T) => string;
  /** Returns whether an error concerns the whole batch, so that it is not bisected. Default: always, which suits work that only reads. */
  concernsAll?: (error: unknown) => boolean;
}

interface Waiting<T, R> {
  item: T;
  resolve: (answer: R) => void;
  reject: (error: unknown) => void;
}

/** Items of a key that wait for the interval to end, so that more can join their batch. */
interface Resting<T, R> {
  queue: Waiting<T, R>[];
  timer: Timer;
}

/**
 * Batches work by key. An item is processed immediately if its key is idle. Items that arrive while a batch of their key runs form the next
 * batch. So thousands of concurrent items need few batches, and a single item has no delay.
 */
export class Together<T, R> {
  readonly #options: TogetherOptions<T, R>;
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** By key. The one that has waited longest comes first. */
  readonly #waiting = new Map<string, Waiting<T, R>[]>();
  readonly #resting = new Map<string, Resting<T, R>>();
  readonly #busy = new Set<string>();

  constructor(options: TogetherOptions<T, R>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Adds an item to a batch. Rejects with the error of the work. The queue is unbounded: callers must limit their items. */
  ask(key: string, item: T): Promise<R> {
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const rest = this.#resting.get(key);
    const queue = rest?.queue ?? this.#waiting.get(key);
    if (queue === undefined) this.#waiting.set(key, [{ item, resolve, reject }]);
    else queue.push({ item, resolve, reject });
    if (rest === undefined) this.#begin();
    else if (!this.#hasRoom(rest.queue)) this.#endRest(key);
    return promise;
  }

  #begin(): void {
    for (const [key, queue] of this.#waiting) {
      if (this.#busy.size === this.#options.at_once) return;
      if (this.#busy.has(key)) continue;
      const [some, left] = this.#take(queue);
      // The rest waits behind the other keys.
      this.#waiting.delete(key);
      if (left.length > 0) this.#waiting.set(key, left);
      this.#busy.add(key);
      const next_at = this.#clock.monotonic() + PIECES_EVERY_MS;
      void this.#perform(key, some).then(() => {
        this.#busy.delete(key);
        this.#restUntil(next_at, key);
        this.#begin();
      });
    }
  }

  #restUntil(next_at: number, key: string): void {
    if (this.#options.rests === false) return;
    const queue = this.#waiting.get(key);
    const ms = next_at - this.#clock.monotonic();
    if (queue === undefined || ms <= 0 || !this.#hasRoom(queue)) return;
    this.#waiting.delete(key);
    this.#resting.set(key, { queue, timer: this.#clock.setTimer(ms, () => this.#endRest(key)) });
  }

  #endRest(key: string): void {
    const rest = this.#resting.get(key);
    if (rest === undefined) return;
    rest.timer.cancel();
    this.#resting.delete(key);
    this.#waiting.set(key, rest.queue);
    this.#begin();
  }

  /** Returns whether one batch can take the whole queue and more. */
  #hasRoom(queue: readonly Waiting<T, R>[]): boolean {
    const { items_max, nameOf } = this.#options;
    if (queue.length >= items_max) return false;
    return nameOf === undefined || new Set(queue.map(({ item }) => nameOf(item))).size === queue.length;
  }

  #take(queue: Waiting<T, R>[]): [some: Waiting<T, R>[], left: Waiting<T, R>[]] {
    const { items_max, nameOf } = this.#options;
    if (nameOf === undefined) return [queue.splice(0, items_max), queue];
    const [some, left, names]: [Waiting<T, R>[], Waiting<T, R>[], Set<string>] = [[], [], new Set()];
    for (const waiting of queue) {
      const name = nameOf(waiting.item);
      if (some.length === items_max || names.has(name)) left.push(waiting);
      else some.push(waiting);
      names.add(name);
    }
    return [some, left];
  }

  /** Never rejects. */
  #perform(key: string, waiting: readonly Waiting<T, R>[]): Promise<void> {
    const { work, concernsAll = () => true } = this.#options;
    const answer = async (some: readonly Waiting<T, R>[]): Promise<void> => {
      const answers = await work(
        key,
        some.map(({ item }) => item),
      );
      if (answers.length !== some.length) throw new Error("the batch did not return a result for each item");
      for (const [i, { resolve }] of some.entries()) resolve(answers[i] as R);
    };
    return inHalves(waiting, answer, { concernsAll, failed: (some, error) => some.forEach(({ reject }) => reject(error)) });
  }
}
