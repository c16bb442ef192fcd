import type { FileHandle } from "node:fs/promises";

/**
 * Reads a stream in pieces of the requested size. It reads from the stream only during a call, so a faster writer has to wait. All methods
 * throw the stream's error.
 */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array, undefined>;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  constructor(stream: AsyncIterable<unknown>) {
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Uint8Array, undefined>;
  }

  /** Returns exactly `count` bytes. Returns undefined if the stream ends before that. */
  async take(count: number): Promise<Buffer | undefined> {
    while (this.#bytes < count) if (!(await this.#fill())) return undefined;
    return this.#cut(count);
  }

  /** Returns 1 to `count` bytes as soon as some are available; undefined at the end of the stream. */
  async some(count: number): Promise<Buffer | undefined> {
    while (this.#bytes === 0) if (!(await this.#fill())) return undefined;
    return this.#cut(Math.min(count, this.#bytes));
  }

  async #fill(): Promise<boolean> {
    const { value } = await this.#chunks.next();
    if (value === undefined) return false;
    this.#parts.push(value);
    this.#bytes += value.length;
    return true;
  }

  #cut(count: number): Buffer {
    const [first] = this.#parts;
    const all = this.#parts.length === 1 && Buffer.isBuffer(first) ? first : Buffer.concat(this.#parts);
    this.#parts = all.length > count ? [all.subarray(count)] : [];
    this.#bytes = all.length - count;
    return all.subarray(0, count);
  }
}

/** Size of the header of an output frame: stream number, three zero bytes, and the length in big endian. */
const HEADER_BYTES = 8;
const STDERR = 2;

export interface Output {
  bytes: Uint8Array;
  /** True if the bytes are from stderr. Always false for a terminal, which does not separate stderr from stdout. */
  error: boolean;
}

/**
 * Splits the output of a container engine into stdout and stderr. It must not be used for a terminal. It replaces a function of the
 * engine's library that would buffer all unread output.
 */
export async function* engineOutput(stream: AsyncIterable<unknown>): AsyncGenerator<Output, undefined> {
  const reader = new ByteReader(stream);
  for (let header = await reader.take(HEADER_BYTES); header !== undefined; header = await reader.take(HEADER_BYTES))
    for (let left = header.readUInt32BE(4); left > 0;) {
      const bytes = await reader.some(left);
      if (bytes === undefined) return;
      left -= bytes.length;
      yield { bytes, error: header[0] === STDERR };
    }
}

/** Size of the buffer for reading a file to compute its hash. */
const HASH_BYTES = 1024 * 1024;

/** Adds the first `bytes` bytes of a file to a hash, or fewer if the file is shorter. Returns how many were added. */
export async function hashPart(file: FileHandle, hash: { update(bytes: Uint8Array): unknown }, bytes: number): Promise<number> {
  const buffer = Buffer.allocUnsafe(Math.min(HASH_BYTES, Math.max(1, bytes)));
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) return at;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}

/** Reads a stream to its end. Throws `tooLong()` if it is longer than `bytes_max`. */
export async function readAll(
  stream: AsyncIterable<unknown>,
  bytes_max: number,
  tooLong: () => Error = () => new Error(`the response is larger than ${bytes_max} bytes`),
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > bytes_max) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
