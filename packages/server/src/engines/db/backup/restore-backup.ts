import { mkdir, readdir, rm } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { EngineLog } from "../../log.ts";
import type { DbAddress } from "../connections.ts";
import {
  type BackupFile,
  copyHashed,
  listDatabaseBackup,
  lockDirectory,
  Refusal,
  restore,
  startEmbedded,
  syncTree,
} from "../embedded/index.ts";
import { markFinished, markUnfinished, refuseUnfinished } from "./data-files.ts";
import { damaged, DATA, type Manifest, readManifest, readWholeManifest } from "./manifest.ts";
import { listRowFiles, loadRows } from "./table-rows.ts";
import { errorCode, exists, hashFile } from "../../../kernel/files.ts";

export interface RestoreOptions {
  /** A directory created by `makeBackup`. */
  from: string;
  /** The new data directory: absent or empty. */
  data_directory: string;
  /** URL of an empty external database; undefined to create an embedded one. */
  database_url: string | undefined;
  clock: Clock;
  log: EngineLog;
  /** Changes the restored database before a server may start on it. If it rejects, the whole restore is undone. */
  prepare?: (connection: DbAddress) => Promise<void>;
}

/**
 * Creates a data directory and its database from a backup. Servers refuse the directory until it is complete.
 *
 * @returns the time of the backup, and the number of files beside the database
 * @throws Refusal when `from` is not a complete backup, or the target is not empty. Then nothing was changed.
 */
export async function restoreBackup(options: RestoreOptions): Promise<{ made_at: string; files: number }> {
  const { from, data_directory } = options;
  const manifest = await readWholeManifest(from);
  if (manifest.database === "postgres" && options.database_url !== undefined)
    throw new Refusal("this is a backup of an embedded database: unset DATABASE_URL to restore it");
  await mkdir(data_directory, { recursive: true, mode: 0o711 });
  await requireEmpty(data_directory);
  await markUnfinished(data_directory);
  try {
    await copyFiles(manifest, from, data_directory);
    await restoreDatabase(manifest, options);
    await syncTree(data_directory);
  } catch (error) {
    // Removes only files of this restore: the directory was empty before, and servers refuse it while it is marked.
    await clear(data_directory);
    if (errorCode(error) === "ENOSPC") throw new Refusal(`no space is left in ${data_directory}: nothing was restored`);
    throw error;
  }
  await markFinished(data_directory);
  return { made_at: manifest.made_at, files: manifest.files.length };
}

async function requireEmpty(data_directory: string): Promise<void> {
  await refuseUnfinished(data_directory);
  if ((await readdir(data_directory)).length === 0) return;
  const database = path.join(data_directory, "postgres");
  const locked = await exists(`${database}.lock`);
  // If another process uses the database, throws a Refusal that names that process.
  if (locked) await (await lockDirectory(database)).release();
  throw new Refusal(`${data_directory} is not empty: restore into a new --data directory`);
}

async function copyFiles({ files }: Manifest, from: string, data_directory: string): Promise<void> {
  for (const { path: name, bytes, sha256 } of files) {
    const target = path.join(data_directory, name);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    const copied = await copyHashed(path.join(from, DATA, name), target);
    if (copied.bytes !== bytes || copied.sha256 !== sha256) throw damaged(name);
  }
}

async function restoreDatabase({ database }: Manifest, options: RestoreOptions): Promise<void> {
  const { from, data_directory, database_url, clock, log, prepare } = options;
  const source = path.join(from, database);
  const directory = path.join(data_directory, "postgres");
  if (database_url !== undefined) {
    await loadRows(database_url, source, log);
    return await prepare?.(database_url);
  }
  if (database === "postgres") {
    await restore({ from: source, directory });
    if (prepare === undefined) return;
  }
  const embedded = await startEmbedded({ directory, clock, log });
  try {
    if (database === "tables") await loadRows(embedded.connection, source, log);
    await prepare?.(embedded.connection);
  } finally {
    await embedded.stop();
  }
}

/** Removes the contents of the directory, the marker file last. */
async function clear(data_directory: string): Promise<void> {
  for (const name of await readdir(data_directory)) {
    if (name !== "restore-unfinished") await rm(path.join(data_directory, name), { recursive: true, force: true });
  }
  await markFinished(data_directory);
}

interface Verified {
  made_at: string;
  files: number;
  bytes: number;
  /** Files that are missing or whose contents differ from the manifest, relative to the backup. */
  damaged: string[];
}

/**
 * Compares every file of a backup with the size and checksum in its manifests. Changes nothing.
 *
 * @throws Refusal when `from` is not a complete backup.
 */
export async function verifyBackup(from: string): Promise<Verified> {
  const manifest = await readManifest(from);
  const verified: Verified = { made_at: manifest.made_at, files: 0, bytes: 0, damaged: [] };
  await compare(from, [manifest.database_manifest], verified);
  // If the database's manifest is damaged, its file names cannot be trusted.
  if (verified.damaged.length === 0) await compare(from, await listDatabaseFiles(from, manifest), verified);
  await compare(from, within(DATA, manifest.files), verified);
  return verified;
}

async function listDatabaseFiles(from: string, { database }: Manifest): Promise<BackupFile[]> {
  const directory = path.join(from, database);
  return within(database, await (database === "postgres" ? listDatabaseBackup(directory) : listRowFiles(directory)));
}

const within = (directory: string, files: readonly BackupFile[]): BackupFile[] =>
  files.map((file) => ({ ...file, path: path.join(directory, file.path) }));

async function compare(from: string, files: readonly BackupFile[], verified: Verified): Promise<void> {
  for (const { path: name, bytes, sha256 } of files) {
    const found = await hashFile(path.join(from, name)).catch((error: unknown) => {
      if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR" || errorCode(error) === "EISDIR") return undefined;
      throw error;
    });
    if (found?.bytes !== bytes || found.sha256 !== sha256) verified.damaged.push(name);
    verified.files += 1;
    verified.bytes += bytes;
  }
}
