import { createHash } from "node:crypto";
import { createReadStream, type Dirent } from "node:fs";
import { access, open, readdir, readFile, rename } from "node:fs/promises";
import path from "node:path";

/** Returns the `code` of a Node error such as ENOENT; undefined for other values. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Returns whether the file or directory exists and is reachable. */
export const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

/** Returns the text of a file; undefined if it does not exist. */
export async function readIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Returns the entries of a directory; none if it does not exist. */
export async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** Makes the names in a directory durable. A new or renamed file survives a power failure only after its directory was synced. */
export async function syncDirectory(directory: string): Promise<void> {
  await using handle = await open(directory, "r");
  await handle.sync();
}

/** Writes a file atomically and durably: after a crash it is complete or missing. The file has `mode` regardless of the umask. */
export async function writeDurably(file: string, text: string, mode: number): Promise<void> {
  const draft = `${file}.new`;
  const handle = await open(draft, "w", mode);
  try {
    await handle.chmod(mode);
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
  await syncDirectory(path.dirname(file));
}

const READ_BYTES = 1024 * 1024;

/** Returns size and checksum of a file, read in bounded memory. */
export async function hashFile(file: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const part of createReadStream(file, { highWaterMark: READ_BYTES }) as AsyncIterable<Buffer>) {
    hash.update(part);
    bytes += part.length;
  }
  return { bytes, sha256: hash.digest("hex") };
}
