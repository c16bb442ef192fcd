import { createHash } from "node:crypto";
import { type FileHandle, stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { BlobError, type BlobStat, type ReceiveOptions } from "./blobs.ts";
import { errorCode } from "../../kernel/files.ts";

export const ignore = (): void => {};

/** Adds an `error` listener, so that an early stream error does not end the process. The next read still throws the error. */
export function heard(stream: Readable): Disposable {
  stream.on("error", ignore);
  return { [Symbol.dispose]: () => void stream.off("error", ignore) };
}

/** Writes the whole chunk at `position` in the file. */
export async function writeFully(handle: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < chunk.byteLength;) {
    written += (await handle.write(chunk, written, chunk.byteLength - written, position + written)).bytesWritten;
  }
}

/** Yields the chunks of a stream. Throws `interrupted` if the stream breaks. Destroys the stream on abort, but not if the reader stops. */
export async function* chunksOf(stream: Readable, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  const abort = (): void => void stream.destroy(new Error("the upload was aborted"));
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }))
      yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk as string);
  } catch (error) {
    throw new BlobError("interrupted", "the upload was interrupted", { cause: error });
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

export async function statOf(path: string, key: string): Promise<BlobStat | undefined> {
  try {
    const { size, mtime } = await stat(path);
    return { key, size, stored_at: mtime };
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Throws the error, or `no_space` if the error means that the disk, the quota or the inodes are exhausted. */
export function refuse(error: unknown): never {
  if (errorCode(error) === "ENOSPC" || errorCode(error) === "EDQUOT")
    throw new BlobError("no_space", "there is no space left for artifacts", { cause: error });
  throw error;
}

/** Passes each chunk and its position to `write`. Returns size and digest. Rejects with `too_large`, `mismatch` or `interrupted`. */
export async function measure(
  stream: Readable,
  options: ReceiveOptions,
  write: (chunk: Buffer, position: number) => Promise<void>,
): Promise<{ size: number; sha256: string }> {
  const all = new Measure(options);
  for await (const chunk of chunksOf(stream, options.signal)) {
    await write(chunk, all.add(chunk));
    options.on_bytes?.(chunk.byteLength);
  }
  return all.finish();
}

/** Counts and hashes the bytes of an upload. Throws as soon as they exceed the limit or cannot match the expected size or digest. */
class Measure {
  readonly #options: Pick<ReceiveOptions, "max_bytes" | "expect">;
  readonly #hash = createHash("sha256");
  #size = 0;

  constructor(options: Pick<ReceiveOptions, "max_bytes" | "expect">) {
    this.#options = options;
  }

  /** Adds a chunk and returns its position. Throws `too_large` or `mismatch`. */
  add(chunk: Uint8Array): number {
    const { max_bytes, expect } = this.#options;
    const position = this.#size;
    this.#size += chunk.byteLength;
    if (this.#size > max_bytes) throw new BlobError("too_large", `more than ${max_bytes} bytes`);
    if (expect?.size !== undefined && this.#size > expect.size)
      throw new BlobError("mismatch", `received more than the expected ${expect.size} bytes`);
    this.#hash.update(chunk);
    return position;
  }

  /** Returns the number of bytes and their digest in lower-case hex. Throws `mismatch` if they differ from the expected ones. */
  finish(): { size: number; sha256: string } {
    const { expect } = this.#options;
    const size = this.#size;
    const sha256 = this.#hash.digest("hex");
    if (expect?.size !== undefined && size !== expect.size)
      throw new BlobError("mismatch", `received ${size} bytes, expected ${expect.size}`);
    if (expect?.sha256 !== undefined && sha256 !== expect.sha256)
      throw new BlobError("mismatch", `the received data has SHA-256 ${sha256}, expected ${expect.sha256}`);
    return { size, sha256 };
  }
}
