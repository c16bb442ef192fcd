import type { Writable } from "node:stream";
import { systemClock } from "./clock.ts";
import { within } from "./time-limit.ts";

/** Maximum characters buffered for the reader of a stream: about 5,000 log lines. */
const WAITING_MAX = 1024 ** 2;

/** Maximum time that an ending process waits for the readers of its output. */
const EXIT_FLUSH_MS = 1_000;

/**
 * Ignores an error of the stream, because a closed pipe (EPIPE) or a full disk must not end the program. The callback of each write counts
 * the lost lines.
 */
const ignoreError = (): void => {};

/**
 * Writes lines to stdout or stderr without blocking the event loop. While the pipe has room, `write` returns after the line was written.
 * When the pipe is full, up to WAITING_MAX characters are buffered. When the buffer is full, lines are dropped until the reader has read
 * the whole buffer.
 */
export class LineOutput {
  readonly #stream: Writable;
  /** Called with the number of dropped lines, once per gap, when the reader has read the buffer. It may call `write`. */
  onGap: (lines: number) => void = () => {};
  #gap = 0;
  #lines_dropped = 0;

  constructor(stream: Writable) {
    this.#stream = stream;
    if (!stream.listeners("error").includes(ignoreError)) stream.on("error", ignoreError);
  }

  /** Number of lines that were not written, because the reader was too slow or writing failed. */
  get lines_dropped(): number {
    return this.#lines_dropped;
  }

  write(line: string): void {
    const waiting = this.#stream.writableLength;
    // An empty buffer accepts any line, even one longer than the limit or after an error. Otherwise the output would be blocked forever.
    if (waiting === 0 || (this.#gap === 0 && waiting + line.length <= WAITING_MAX)) this.#stream.write(line, this.#written);
    else {
      // The callback of this empty write runs when the reader has read everything that was buffered, including text from other writers.
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

/** Waits until the readers of the streams have read everything, for at most EXIT_FLUSH_MS. Returns whether they have. */
export async function flushOutput(...streams: readonly Writable[]): Promise<boolean> {
  const flushed = streams.filter(isWaiting).map((stream) => new Promise<void>((resolve) => void stream.write("", () => resolve())));
  return (await within(systemClock, EXIT_FLUSH_MS, Promise.all(flushed))) !== undefined;
}

/** Ends the process. Before that, waits up to EXIT_FLUSH_MS until its output has been read. */
export async function endProcess(code: number): Promise<never> {
  const streams = [process.stdout, process.stderr];
  if (streams.some(isWaiting)) await flushOutput(...streams);
  process.exit(code);
}

const isWaiting = ({ writableLength }: Writable): boolean => writableLength > 0;
