import type { Readable } from "node:stream";
import type { Output } from "./terminal.ts";

const HEADER_BYTES = 8;
const STANDARD_ERROR = 2;

/** Reads a container engine's output without a terminal: frames of a stream number, three zero bytes, a length and data. */
export class FrameReader {
  readonly #stream: Readable;
  #header = Buffer.alloc(0);
  #left = 0;
  #error = false;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(stream: Readable) {
    this.#stream = stream;
    const over = (): void => {
      this.#over = true;
      this.#wake?.();
    };
    stream.on("readable", () => this.#wake?.());
    stream.once("end", over).once("close", over).on("error", over);
  }

  async read(): Promise<Output | undefined> {
    for (;;) {
      const bytes = this.#stream.read() as Buffer | null;
      if (bytes === null) {
        if (this.#over) return undefined;
        await new Promise<void>((resolve) => (this.#wake = resolve));
        continue;
      }
      const output = this.#take(bytes);
      if (output !== undefined) return output;
    }
  }

  /** Stops waiting for more data. */
  end(): void {
    this.#over = true;
    this.#wake?.();
  }

  /** Returns the bytes that belong to the current frame; the rest is put back. */
  #take(bytes: Buffer): Output | undefined {
    if (this.#left === 0) {
      const missing = HEADER_BYTES - this.#header.length;
      this.#header = Buffer.concat([this.#header, bytes.subarray(0, missing)]);
      if (bytes.length > missing) this.#stream.unshift(bytes.subarray(missing));
      if (this.#header.length < HEADER_BYTES) return undefined;
      this.#error = this.#header[0] === STANDARD_ERROR;
      this.#left = this.#header.readUInt32BE(4);
      this.#header = Buffer.alloc(0);
      return undefined;
    }
    const mine = bytes.subarray(0, this.#left);
    if (bytes.length > mine.length) this.#stream.unshift(bytes.subarray(mine.length));
    this.#left -= mine.length;
    return { bytes: mine, error: this.#error };
  }
}
