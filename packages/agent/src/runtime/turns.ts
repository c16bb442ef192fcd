import { throwIfAborted, unlessAborted } from "./failure.ts";

/** A mutex for each key. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<void>>();

  /** Whether the key is locked or waited for. */
  has(name: string): boolean {
    return this.#last.has(name);
  }

  /** Runs `work` after all earlier callers with this key. An aborted caller stops waiting; the current holder may take hours. */
  async take(name: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const turn = before.then(() => {
      throwIfAborted(signal);
      return work();
    });
    const over = (): void => {
      if (this.#last.get(name) === settled) this.#last.delete(name);
    };
    const settled: Promise<void> = turn.then(over, over);
    this.#last.set(name, settled);
    try {
      await unlessAborted(signal, before);
    } catch {
      throwIfAborted(signal);
    }
    await turn;
  }
}
