import fs from "node:fs";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

/**
 * Returns the bytes of these files with gzip files unpacked: the packed size is no bound, and an engine unpacks until its disk is full. Stops once
 * they exceed `max`. A damaged file counts as 0: the engine refuses it.
 */
export async function unpackedBytes(files: readonly string[], max: number, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for (const file of files) {
    if (bytes > max) break;
    try {
      bytes += await unpackedBytesOf(fs.createReadStream(file), max - bytes, signal);
    } catch (error) {
      signal.throwIfAborted();
      if ((error as NodeJS.ErrnoException).code === "ENOENT") throw error;
    }
  }
  return bytes;
}

/** The same for a stream. Throws if it is damaged. */
export async function unpackedBytesOf(content: AsyncIterable<unknown>, max: number, signal: AbortSignal): Promise<number> {
  const chunks = (content as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  const first = await chunks.next();
  if (first.done === true) return 0;
  const all = async function* (): AsyncGenerator<Uint8Array> {
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => chunks };
  };
  let bytes = 0;
  const enough = new AbortController();
  const count = async (unpacked: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of unpacked) {
      bytes += chunk.length;
      if (bytes > max) enough.abort();
    }
  };
  try {
    const ends = { signal: AbortSignal.any([signal, enough.signal]) };
    await (startsAsGzip(first.value) ? pipeline(all, createGunzip(), count, ends) : pipeline(all, count, ends));
  } catch (error) {
    if (signal.aborted || !enough.signal.aborted) throw error;
  }
  return bytes;
}

const startsAsGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Whether the file begins with gzip's magic number. */
export async function isGzip(file: string): Promise<boolean> {
  await using handle = await fs.promises.open(file);
  const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
  return startsAsGzip(buffer);
}
