import type { Dirent } from "node:fs";
import { type FileHandle, readdir, stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { BlobError, type BlobStat } from "./blobs.ts";

export const ignore = (): void => {};

/** Prevents that an error of a stream before it is read ends the process. The next read still reports the error. */
export function heard(stream: Readable): Disposable {
  stream.on("error", ignore);
  return { [Symbol.dispose]: () => void stream.off("error", ignore) };
}

/** Writes the whole chunk at `position`. */
export async function writeFully(handle: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < chunk.byteLength;) {
    written += (await handle.write(chunk, written, chunk.byteLength - written, position + written)).bytesWritten;
  }
}

/** Yields the stream's chunks and throws `interrupted` if it breaks. Destroys the stream only on `signal`, not when the reader stops. */
export async function* chunksOf(stream: Readable, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  const abort = (): void => void stream.destroy(new Error("the upload was aborted"));
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }))
      yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk as string);
  } catch (error) {
    throw new BlobError("interrupted", "the upload broke off", { cause: error });
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

export async function statOf(path: string, key: string): Promise<BlobStat | undefined> {
  try {
    const { size, mtime } = await stat(path);
    return { key, size, stored_at: mtime };
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** Returns no entries if the directory does not exist. */
export async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    if (isCode(error, "ENOENT")) return [];
    throw error;
  }
}

/** Throws the error, as `no_space` if the disk, quota or inodes are exhausted. */
export function refuse(error: unknown): never {
  if (isCode(error, "ENOSPC") || isCode(error, "EDQUOT"))
    throw new BlobError("no_space", "there is no space left for blobs", { cause: error });
  throw error;
}

export const isCode = (error: unknown, code: string): boolean => error instanceof Error && "code" in error && error.code === code;
