import { access, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Log } from "./log.ts";
import { syncDirectory } from "../../../kernel/sync-directory.ts";

/** Names of directories beside the database's, for replacing it by another one. */
interface Switch {
  /** The new database. */
  upgraded: string;
  /** New name of the current database. */
  kept: string;
}

const switchFileOf = (directory: string): string => `${directory}.switch`;
const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

/**
 * Replaces the database at `directory` by the one at `upgraded` and renames the current one to `kept`. Two renames are not atomic, so the
 * intention is written to disk first. After a kill between them, the next start finishes the switch instead of creating an empty database.
 */
export async function switchDirectories(directory: string, next: Switch, log: Log): Promise<void> {
  const file = switchFileOf(directory);
  await writeFile(`${file}.new`, JSON.stringify(next), { flush: true, mode: 0o600 });
  await rename(`${file}.new`, file);
  await syncDirectory(path.dirname(directory));
  await finishSwitch(directory, log);
}

/** Finishes a switch that is recorded on disk. No effect if there is none. */
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
