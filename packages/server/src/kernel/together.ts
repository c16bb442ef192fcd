import { type Clock, systemClock, type Timer } from "@roamfleet/clock";
import { inHalves } from "./in-halves.ts";

/** From the beginning of one piece of work of a key to that of the next, while some waits: each costs a transaction or more, and nobody notices so long. */
export const PIECES_EVERY_MS = 50;

export interface TogetherOptions<T, R> {
  /** Absent: real time, whatever time the server's is. It is this machine's work that is saved, as if the database took a little longer. */
  clock?: Pick<Clock, "monotonic" | "setTimer">;
  /** False: the next piece of work of a key begins as soon as the one before has ended, whatever each costs. */
  rests?: boolean;
  /** Items of one piece of work. */
  items_max: number;
  /** Pieces of work under way, each of another key: all else finds a connection to the database, too. */
  at_once: number;
  /** Does it for all items, in one go, and answers for each, in their order. It may be asked for fewer of them again when it failed. */
  work: (key: string, items: readonly T[]) => Promise<readonly R[]>;
  /** Two items of the same name are never in one piece of work; absent: any may be. */
  nameOf?: (item: T) => string;
  /** Whether an error is no item's fault, so that it is not looked for; absent: no error is an item's fault, as with what only reads. */
  concernsAll?: (error: unknown) => boolean;
}

interface Waiting<T, R> {
  item: T;
  resolve: (answer: R) => void;
  reject: (error: unknown) => void;
}

/** What waits of a key of which a piece of work began a moment ago: more comes together meanwhile. */
interface Resting<T, R> {
  queue: Waiting<T, R>[];
  timer: Timer;
}

/**
 * Does what is asked at once when nothing else of its key is under way or waits, and together whatever is asked meanwhile. Thousands
 * that come at the same moment are a few pieces of work, and one that comes alone waits for nothing.
 */
export class Together<T, R> {
  readonly #options: TogetherOptions<T, R>;
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** By key; the one that has waited longest comes first. */
  readonly #waiting = new Map<string, Waiting<T, R>[]>();
  readonly #resting = new Map<string, Resting<T, R>>();
  readonly #busy = new Set<string>();

  constructor(options: TogetherOptions<T, R>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Rejects with what the work threw for this item, or for all. How many may wait is whoever asks to bound. */
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
      // What is left comes after the keys that wait already.
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

  /** Whether one piece of work would take all of it, and more. */
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
      if (answers.length !== some.length) throw new Error("work that was done together has not an answer for each");
      for (const [i, { resolve }] of some.entries()) resolve(answers[i] as R);
    };
    return inHalves(waiting, answer, { concernsAll, failed: (some, error) => some.forEach(({ reject }) => reject(error)) });
  }
}
