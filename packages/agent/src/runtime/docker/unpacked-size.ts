import fs from "node:fs";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

/**
 * Bytes of these files with those that are gzip unpacked: what is packed tells nothing of that, and an engine unpacks until
 * its disk is full. Looks no further once they are more than `max`. A file that is damaged counts as far as it goes: the
 * engine refuses it by itself.
 */
export async function unpackedBytes(files: readonly string[], max: number, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for (const file of files) {
    if (bytes > max) break;
    if (await isGzip(file)) bytes += await gunzippedBytes(file, max - bytes, signal);
    else bytes += (await fs.promises.stat(file)).size;
  }
  return bytes;
}

async function gunzippedBytes(file: string, max: number, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  const enough = new AbortController();
  try {
    await pipeline(
      fs.createReadStream(file),
      createGunzip(),
      async (unpacked: AsyncIterable<Uint8Array>) => {
        for await (const chunk of unpacked) {
          bytes += chunk.length;
          if (bytes > max) enough.abort();
        }
      },
      { signal: AbortSignal.any([signal, enough.signal]) },
    );
  } catch (error) {
    signal.throwIfAborted();
    if (!enough.signal.aborted && (error as NodeJS.ErrnoException).code === "ENOENT") throw error;
  }
  return bytes;
}

/** Whether it begins as gzip does. */
export async function isGzip(file: string): Promise<boolean> {
  await using handle = await fs.promises.open(file);
  const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
  return buffer[0] === 0x1f && buffer[1] === 0x8b;
}
