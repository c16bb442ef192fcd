import { access, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Log } from "./log.ts";
import { syncDirectory } from "../../../kernel/sync-directory.ts";

/** Names of directories beside the database's own, for replacing it by another one. */
interface Switch {
  /** Becomes the database. */
  upgraded: string;
  /** What the present one is kept as. */
  kept: string;
}

const switchFileOf = (directory: string): string => `${directory}.switch`;
const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

/**
 * Replaces the database at `directory` by the one at `upgraded` and keeps the present one as `kept`. Two renames cannot
 * be one, so the intention is on disk first: a start after a kill in between finishes the switch instead of finding
 * no database and making an empty one.
 */
export async function switchDirectories(directory: string, next: Switch, log: Log): Promise<void> {
  const file = switchFileOf(directory);
  await writeFile(`${file}.new`, JSON.stringify(next), { flush: true, mode: 0o600 });
  await rename(`${file}.new`, file);
  await syncDirectory(path.dirname(directory));
  await finishSwitch(directory, log);
}

/** Finishes a switch that was announced on disk; nothing to do when there is none. */
export async function finishSwitch(directory: string, log: Log): Promise<void> {
  const file = switchFileOf(directory);
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return;
  const parent = path.dirname(directory);
  const { upgraded, kept } = JSON.parse(text) as Switch;
  const from = path.join(parent, upgraded);
  if (await exists(from)) {
    if (!(await exists(path.join(parent, kept)))) await rename(directory, path.join(parent, kept));
    await rename(from, directory);
  }
  await syncDirectory(parent);
  await rm(file);
  log.info({ directory, kept }, "upgraded database is in place, the old one is kept");
}
