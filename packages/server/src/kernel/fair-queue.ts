/** Queues items by key. Keys are served round robin, so a long queue only delays its own key. Each key's items are served in order of arrival. */
export class FairQueue<T> {
  /** The key of each item, in order of arrival. */
  readonly #keys = new Map<T, string>();
  /** The same items by key, in the order in which the keys are served next. No set is empty. */
  readonly #queues = new Map<string, Set<T>>();

  get size(): number {
    return this.#keys.size;
  }

  /** The item that has waited longest. */
  get oldest(): T | undefined {
    return this.#keys.keys().next().value;
  }

  sizeOf(key: string): number {
    return this.#queues.get(key)?.size ?? 0;
  }

  push(key: string, item: T): void {
    this.#keys.set(item, key);
    const queue = this.#queues.get(key);
    if (queue === undefined) this.#queues.set(key, new Set([item]));
    else queue.add(item);
  }

  /** Removes an item. Has no effect if it is not queued. */
  delete(item: T): void {
    const key = this.#keys.get(item);
    if (key === undefined) return;
    this.#keys.delete(item);
    const queue = this.#queues.get(key);
    queue?.delete(item);
    if (queue?.size === 0) this.#queues.delete(key);
  }

  /** Returns the first item of the next key that `isAllowed` accepts. */
  peek(isAllowed: (key: string, first: T) => boolean): { key: string; item: T } | undefined {
    for (const [key, [first]] of this.#queues) if (isAllowed(key, first as T)) return { key, item: first as T };
    return undefined;
  }

  /** Like `peek`, but removes the item. Its key then moves to the end. */
  take(isAllowed: (key: string, first: T) => boolean): { key: string; item: T } | undefined {
    const found = this.peek(isAllowed);
    if (found === undefined) return undefined;
    const { key, item } = found;
    this.delete(item);
    const left = this.#queues.get(key);
    this.#queues.delete(key);
    if (left !== undefined) this.#queues.set(key, left);
    return found;
  }

  /** Removes and returns the oldest items while `isTaken` returns true. */
  takeWhile(isTaken: (item: T) => boolean): T[] {
    const taken: T[] = [];
    for (const item of this.#keys.keys()) {
      if (!isTaken(item)) break;
      taken.push(item);
    }
    for (const item of taken) this.delete(item);
    return taken;
  }
}
