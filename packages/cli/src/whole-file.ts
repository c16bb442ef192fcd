import { createWriteStream } from "node:fs";
import { rename, rm, stat } from "node:fs/promises";
import type { Writable } from "node:stream";

/**
 * Has a file written that only its owner may read and that is there only once it is whole; until then it stands beside as `.part`, and
 * nothing is left of it when `write` rejects. A device or a pipe is written as it is.
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
