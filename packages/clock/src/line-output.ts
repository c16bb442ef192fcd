import type { Writable } from "node:stream";
import { systemClock } from "./clock.ts";
import { within } from "./time-limit.ts";

/** Most characters that wait for the reader of a stream: some 5,000 lines of a log. */
const WAITING_MAX = 1024 ** 2;

/** How long a process that ends waits for the readers of its output. */
const EXIT_FLUSH_MS = 1_000;

/** A reader that has gone (EPIPE) or a full disk must not end the program. Lost lines are counted where they are written. */
const ignoreError = (): void => {};

/**
 * Writes lines to stdout or stderr without ever blocking the event loop. A line is written before `write` returns, as long as the pipe has
 * room. After that at most WAITING_MAX characters wait for the reader, and further lines are dropped until all of them are read.
 */
export class LineOutput {
  readonly #stream: Writable;
  /** Called once per gap, when the reader has continued, with the number of dropped lines. It may write. */
  onGap: (lines: number) => void = () => {};
  #gap = 0;
  #lines_dropped = 0;

  constructor(stream: Writable) {
    this.#stream = stream;
    if (!stream.listeners("error").includes(ignoreError)) stream.on("error", ignoreError);
  }

  /** All lines that were not written: the reader was too slow, or writing failed. */
  get lines_dropped(): number {
    return this.#lines_dropped;
  }

  write(line: string): void {
    const waiting = this.#stream.writableLength;
    // Anything may be written to an empty stream, so that one long line, or an earlier error, does not end the output.
    if (waiting === 0 || (this.#gap === 0 && waiting + line.length <= WAITING_MAX)) this.#stream.write(line, this.#written);
    else {
      // Called when all that waits has been read, whatever wrote it.
      if (this.#gap === 0) this.#stream.write("", (error) => error || this.#reportGap());
      this.#drop();
    }
  }

  #drop(): void {
    this.#gap += 1;
    this.#lines_dropped += 1;
  }

  readonly #written = (error?: Error | null): void => {
    if (error) this.#drop();
    else this.#reportGap();
  };

  #reportGap(): void {
    if (this.#gap === 0 || this.#stream.writableLength > 0) return;
    const lines = this.#gap;
    this.#gap = 0;
    this.onGap(lines);
  }
}

/** Waits until everything written to the streams has been read, for EXIT_FLUSH_MS at most. Returns whether it was. */
export async function flushOutput(...streams: readonly Writable[]): Promise<boolean> {
  const flushed = streams.filter(isWaiting).map((stream) => new Promise<void>((resolve) => void stream.write("", () => resolve())));
  return (await within(systemClock, EXIT_FLUSH_MS, Promise.all(flushed))) !== undefined;
}

/** Ends the process. Its last lines are written before, unless they are not read for EXIT_FLUSH_MS. */
export async function endProcess(code: number): Promise<never> {
  const streams = [process.stdout, process.stderr];
  if (streams.some(isWaiting)) await flushOutput(...streams);
  process.exit(code);
}

const isWaiting = ({ writableLength }: Writable): boolean => writableLength > 0;
