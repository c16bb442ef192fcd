import { createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import type { Writable } from "node:stream";

/**
 * Writes a file atomically, readable by its owner only: `write` fills a `.part` file beside it, which is removed if `write` rejects. A
 * device or pipe is written directly.
 */
export async function writeWhole(file: string, write: (sink: Writable) => Promise<unknown>): Promise<void> {
  const there = await stat(file).catch(() => undefined);
  if (there !== undefined && !there.isFile() && !there.isDirectory()) return void (await write(createWriteStream(file)));
  const part = `${file}.part`;
  await rm(part, { force: true });
  try {
    await write(createWriteStream(part, { mode: 0o600, flags: "wx" }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
