/** A line is printed at least this often while something takes its time. */
const STILL_EVERY_MS = 4_000;

/** Says what is being done, and that it is still being done. Plain lines: they read the same in a terminal and in a log. */
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
