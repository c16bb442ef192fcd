import path from "node:path";
import { type BackupFile, errorCode, hashFile, listDatabaseBackup } from "../embedded/index.ts";
import { DATA, type Manifest, readManifest } from "./manifest.ts";
import { listRowFiles } from "./table-rows.ts";

export interface Verified {
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
