import { throwIfAborted, unlessAborted } from "./failure.ts";

/** Work on the same thing, one after the other. */
export class Turns {
  readonly #last = new Map<string, Promise<void>>();

  /** Somebody works on it, or waits to. */
  has(name: string): boolean {
    return this.#last.has(name);
  }

  /** Does the work when those who came before have ended. Whoever is called off before its turn waits no longer: theirs may take hours. */
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
