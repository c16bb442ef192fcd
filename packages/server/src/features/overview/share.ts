/** The running read and the one after it. */
interface Readings<T> {
  present: Promise<T>;
  next: Promise<T> | undefined;
}

/**
 * Coalesces reads by key: at most one runs at a time. Callers during a read share one that starts after it, so that no caller gets
 * data read before its call. The load on the database does not depend on the number of callers.
 */
export class SharedReads<T> {
  readonly #readings = new Map<string, Readings<T>>();

  async read(key: string, work: () => Promise<T>): Promise<T> {
    const known = this.#readings.get(key);
    if (known === undefined) return await this.#start(key, work);
    known.next ??= known.present.then(
      () => this.#start(key, work),
      () => this.#start(key, work),
    );
    return await known.next;
  }

  async #start(key: string, work: () => Promise<T>): Promise<T> {
    const present = work();
    const mine: Readings<T> = { present, next: undefined };
    this.#readings.set(key, mine);
    try {
      return await present;
    } finally {
      // If a next read is waiting, it replaces this entry.
      if (mine.next === undefined && this.#readings.get(key) === mine) this.#readings.delete(key);
    }
  }
}
