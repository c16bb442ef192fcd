import { access, mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { errorCode, syncDirectory } from "../../../kernel/files.ts";
import type { EngineLog } from "../../log.ts";
import { backup, Refusal, runningDatabase, startEmbedded, syncTree } from "../embedded/index.ts";
import { copyDataFiles, listStrange, refuseUnfinished, writeLastBackup } from "./data-files.ts";
import { DATA, describeFile, FORMAT, type Manifest, MANIFEST_FILE } from "./manifest.ts";
import { dumpRows, ROWS_MANIFEST } from "./table-rows.ts";

export interface BackupOptions {
  data_directory: string;
  /** URL of an external database; undefined for the embedded one. */
  database_url: string | undefined;
  /** Directory for the backup: absent or empty. */
  to: string;
  clock: Clock;
  log: EngineLog;
}

export interface BackupMade {
  /** Absolute path of the backup. */
  directory: string;
  /** Number of copied files of the data directory, without the database. */
  files: number;
  bytes: number;
  /** Artifacts on disk whose bytes differ from those that were uploaded. */
  damaged: string[];
  /** Names in the data directory that Roamfleet did not create. The backup does not contain them. */
  left_out: string[];
}

/**
 * Copies a server's database and files. The server may be running. The backup is consistent and contains every write that was acknowledged
 * before the call. It contains each write during the call completely or not at all. The directory gets its final name when the backup is
 * complete.
 *
 * @throws Refusal when `to` has contents or there is nothing to back up. After any error nothing is left at `to`.
 */
export async function makeBackup(options: BackupOptions): Promise<BackupMade> {
  const { data_directory, clock, log } = options;
  const target = path.resolve(options.to);
  await requireFree(target);
  await access(data_directory).catch((error: unknown) => {
    throw new Refusal(`the data directory ${data_directory} does not exist`, { cause: error });
  });
  await refuseUnfinished(data_directory);
  const made_at = clock.now().toISOString();
  await mkdir(path.dirname(target), { recursive: true });
  const partial = await mkdtemp(`${target}.partial-`);
  try {
    const database = await copyDatabase(options, partial);
    const { files, damaged } = await copyDataFiles(data_directory, path.join(partial, DATA));
    const database_manifest = await describeFile(
      partial,
      database === "tables" ? path.join(database, ROWS_MANIFEST) : path.join(database, MANIFEST_FILE),
    );
    const manifest: Manifest = { format: FORMAT, made_at, database, database_manifest, files };
    await writeFile(path.join(partial, MANIFEST_FILE), `${JSON.stringify(manifest, null, 1)}\n`, { mode: 0o600 });
    await syncTree(partial);
    await requireFree(target);
    await rename(partial, target);
    await syncDirectory(path.dirname(target));
    // A failure is only logged, because the backup is complete. The server then reports an older time of the last backup.
    await writeLastBackup(data_directory, made_at).catch((error: unknown) =>
      log.warn({ err: error, data_directory }, "the time of the backup could not be written to the data directory"),
    );
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    return { directory: target, files: files.length, bytes, damaged, left_out: await listStrange(data_directory) };
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    if (errorCode(error) === "ENOSPC") throw new Refusal(`no space is left for the backup in ${path.dirname(target)}: nothing was kept`);
    throw error;
  }
}

async function requireFree(target: string): Promise<void> {
  const names = await readdir(target).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return [];
    if (errorCode(error) === "ENOTDIR") throw new Refusal(`${target} exists and is not a directory: choose a new directory for the backup`);
    throw error;
  });
  if (names.length > 0) throw new Refusal(`${target} is not empty: choose a new directory for the backup`);
}

async function copyDatabase({ data_directory, database_url, clock, log }: BackupOptions, to: string): Promise<Manifest["database"]> {
  if (database_url !== undefined) {
    await dumpRows(database_url, path.join(to, "tables"));
    return "tables";
  }
  const directory = path.join(data_directory, "postgres");
  await access(directory).catch((error: unknown) => {
    throw new Refusal(`there is no database in ${directory}: for an external database set DATABASE_URL, as for the server`, {
      cause: error,
    });
  });
  const running = await runningDatabase(directory);
  const started = running === undefined ? await startEmbedded({ directory, clock, log }) : undefined;
  try {
    const connection = running ?? started?.connection;
    if (connection === undefined) throw new Error("the database started, but its connection is unknown");
    await backup({ connection, dataDirectory: directory, to: path.join(to, "postgres") });
    return "postgres";
  } finally {
    await started?.stop();
  }
}

/** Name of a dated backup, such as `2030-01-31T023000Z`. It has no colons, because some file systems refuse them. */
const DATED = /^\d{4}-\d\d-\d\dT\d{6}Z$/;
const KEPT_MAX = 10_000;

/**
 * Creates a dated backup in the directory `to`, then keeps the newest `keep` dated backups there and removes the others. It never removes
 * the new backup, even if the clock was set back. Other files in the directory stay.
 *
 * @throws Refusal when `keep` is not a valid number. If the new backup fails, all others stay.
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

/** Removes a backup. Renames it first, so that an interruption leaves no partial backup under the name of a backup. */
async function remove(directory: string): Promise<void> {
  const partial = `${directory}.partial-removed`;
  await rm(partial, { recursive: true, force: true });
  await rename(directory, partial);
  await syncDirectory(path.dirname(directory));
  await rm(partial, { recursive: true, force: true });
}
