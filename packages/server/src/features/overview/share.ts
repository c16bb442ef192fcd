/** A reading that is under way, and the one behind it. */
interface Readings<T> {
  present: Promise<T>;
  next: Promise<T> | undefined;
}

/**
 * One reading at a time for each key, for all who ask meanwhile: they get the one that begins after the present one, so that nobody
 * is told what was read before they asked. However many look, the database counts once.
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
      // The next one, if somebody waits for it, takes the place by itself.
      if (mine.next === undefined && this.#readings.get(key) === mine) this.#readings.delete(key);
    }
  }
}
