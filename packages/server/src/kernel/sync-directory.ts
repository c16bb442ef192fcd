import { open } from "node:fs/promises";

/** Makes the names in a directory survive a power cut: a file made or renamed there is durable only when its directory is. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
