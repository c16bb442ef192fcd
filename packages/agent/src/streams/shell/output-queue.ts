import type { Readable } from "node:stream";
import type { Output } from "./terminal.ts";

interface Source {
  stream: Readable;
  error: boolean;
}

/** Merges several streams into one, a chunk at a time: between two reads nothing is consumed from any of them. */
export class OutputQueue {
  readonly #sources: readonly Source[];
  #open: Set<Source>;
  #waiting: ((output: Output | undefined) => void) | undefined;

  constructor(sources: readonly Source[]) {
    this.#sources = sources;
    this.#open = new Set(sources);
    for (const source of sources) {
      const over = (): void => {
        this.#open.delete(source);
        this.#look();
      };
      source.stream.on("readable", () => this.#look());
      source.stream.once("end", over).once("close", over).on("error", over);
    }
  }

  read(): Promise<Output | undefined> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#look();
    });
  }

  /** Stops waiting for more data; earlier data is still read. */
  end(): void {
    this.#open = new Set();
    this.#look();
  }

  #look(): void {
    if (this.#waiting === undefined) return;
    for (const { stream, error } of this.#sources) {
      const bytes = stream.read() as Buffer | null;
      // Reading may have emitted an end, whose handler has already checked the queue.
      if (bytes !== null) return this.#give({ bytes, error });
    }
    if (this.#open.size === 0) this.#give(undefined);
  }

  #give(output: Output | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(output);
  }
}
