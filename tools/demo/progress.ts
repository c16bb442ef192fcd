/** Maximum interval between two lines during a long step. */
const STILL_EVERY_MS = 4_000;

/** Prints each step, and periodically that it still runs, as plain lines for terminals and logs. */
export class Progress {
  readonly #out: NodeJS.WritableStream;
  #timer: NodeJS.Timeout | undefined;

  constructor(out: NodeJS.WritableStream) {
    this.#out = out;
  }

  async during<T>(what: string, work: () => Promise<T>): Promise<T> {
    const started = performance.now();
    const seconds = (): string => ((performance.now() - started) / 1_000).toFixed(1);
    this.#out.write(`${what} …\n`);
    this.#timer = setInterval(() => this.#out.write(`  still working (${seconds()} s)\n`), STILL_EVERY_MS);
    try {
      const result = await work();
      this.#out.write(`  done (${seconds()} s)\n`);
      return result;
    } finally {
      this.stop();
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
