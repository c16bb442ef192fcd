/** A queue per key, served round robin: a long queue only delays its own key. */
export class FairQueue<T> {
  /** In the order in which the keys are served next. No queue is empty. */
  readonly #lines = new Map<string, T[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  sizeOf(key: string): number {
    return this.#lines.get(key)?.length ?? 0;
  }

  push(key: string, item: T): void {
    const line = this.#lines.get(key);
    if (line === undefined) this.#lines.set(key, [item]);
    else line.push(item);
    this.#size += 1;
  }

  /** Takes the oldest item of the first allowed key. That key then moves to the end. */
  take(isAllowed: (key: string) => boolean): { key: string; item: T } | undefined {
    for (const [key, line] of this.#lines) {
      if (!isAllowed(key)) continue;
      const [item] = line.splice(0, 1) as [T];
      this.#lines.delete(key);
      if (line.length > 0) this.#lines.set(key, line);
      this.#size -= 1;
      return { key, item };
    }
    return undefined;
  }

  /** Takes the oldest items of each key while `isTaken` returns true. */
  takeWhile(isTaken: (item: T) => boolean): T[] {
    const taken: T[] = [];
    for (const [key, line] of this.#lines) {
      const kept = line.findIndex((item) => !isTaken(item));
      taken.push(...line.splice(0, kept < 0 ? line.length : kept));
      if (line.length === 0) this.#lines.delete(key);
    }
    this.#size -= taken.length;
    return taken;
  }
}
