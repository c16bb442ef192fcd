import { open, rename } from "node:fs/promises";
import path from "node:path";
import { syncDirectory } from "./sync-directory.ts";

/** Writes a file atomically and durably: after a crash it is complete or missing. It has this mode regardless of the umask. */
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
