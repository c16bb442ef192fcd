import { mkdir, readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { syncDirectory } from "../../../kernel/sync-directory.ts";
import { Refusal } from "../embedded/index.ts";
import { type BackupMade, type BackupOptions, makeBackup } from "./make-backup.ts";

/** `2030-01-31T023000Z`, in UTC, without colons, which some file systems refuse. */
const DATED = /^\d{4}-\d\d-\d\dT\d{6}Z$/;
const KEPT_MAX = 10_000;

/**
 * Creates a dated backup in the directory `to`, then removes the oldest dated backups there beyond `keep`. The new one is never removed,
 * even if the clock was set back. Other files in the directory stay.
 *
 * @throws Refusal when `keep` is not a number of backups. If the new backup fails, all others stay.
 */
export async function makeRotatedBackup(options: BackupOptions & { keep: number }): Promise<BackupMade & { removed: string[] }> {
  const { keep, clock } = options;
  if (!Number.isSafeInteger(keep) || keep < 1 || keep > KEPT_MAX)
    throw new Refusal(`--keep must be a number of backups from 1 to ${KEPT_MAX}`);
  const directory = path.resolve(options.to);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const name = `${clock.now().toISOString().slice(0, 19).replaceAll(":", "")}Z`;
  const made = await makeBackup({ ...options, to: path.join(directory, name) });
  const others = (await readdir(directory)).filter((one) => DATED.test(one) && one !== name).toSorted();
  const removed = others.slice(0, Math.max(0, others.length + 1 - keep));
  for (const one of removed) await remove(path.join(directory, one));
  return { ...made, removed };
}

/** Renames it first, so that an interrupted removal leaves no partial backup under a backup's name. */
async function remove(directory: string): Promise<void> {
  const partial = `${directory}.partial-removed`;
  await rm(partial, { recursive: true, force: true });
  await rename(directory, partial);
  await syncDirectory(path.dirname(directory));
  await rm(partial, { recursive: true, force: true });
}
