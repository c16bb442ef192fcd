import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { BACKUP_FORMAT, type BackupManifest, copyHashed, DATABASE_NAME, MANIFEST_NAME } from "./backup-files.ts";
import { readMajor } from "./binaries.ts";
import { placeDirectory } from "./cluster.ts";
import { lockDirectory } from "./lock.ts";
import { Refusal } from "./refusal.ts";
import { syncDirectory } from "../../../kernel/sync-directory.ts";
import { syncTree } from "./sync.ts";

export interface RestoreOptions {
  /** A directory that `backup` made. */
  from: string;
  /** The database's new directory, `<data>/postgres`: absent or empty. */
  directory: string;
}

/**
 * Makes a database of a backup. PostgreSQL brings it to its consistent state at the first start.
 *
 * @throws Refusal when `from` is no whole backup or `directory` has contents; then nothing is left at `directory`.
 */
export async function restore({ from, directory: given }: RestoreOptions): Promise<BackupManifest> {
  const manifest = await readManifest(from);
  const directory = await placeDirectory(given);
  const lock = await lockDirectory(directory);
  try {
    if ((await readMajor(directory)) !== undefined)
      throw new Refusal(`${directory} already holds a database: restore into a new --data directory`);
    // The name of half-made databases: a start sweeps what a killed restore left.
    const half = await mkdtemp(`${directory}.init-`);
    try {
      await copyVerified(path.join(from, DATABASE_NAME), half, manifest);
      await syncTree(half);
      await rename(half, directory);
    } catch (error) {
      await rm(half, { recursive: true, force: true });
      throw error;
    }
    await syncDirectory(path.dirname(directory));
    return manifest;
  } finally {
    await lock.release();
  }
}

async function copyVerified(from: string, to: string, manifest: BackupManifest): Promise<void> {
  for (const name of manifest.directories) await mkdir(path.join(to, inside(name)), { recursive: true, mode: 0o700 });
  for (const { path: name, bytes, sha256 } of manifest.files) {
    const copied = await copyHashed(path.join(from, inside(name)), path.join(to, name)).catch((error: unknown) => {
      throw new Refusal(`the backup lacks ${name}`, { cause: error });
    });
    if (copied.bytes !== bytes || copied.sha256 !== sha256)
      throw new Refusal(`the backup is damaged: ${name} does not have the contents that were backed up`);
  }
}

/** A manifest is input like any other: no path of it leaves the directory. */
function inside(name: string): string {
  if (path.isAbsolute(name) || name.split("/").includes("..")) throw new Refusal(`the backup names a file outside of itself: ${name}`);
  return name;
}

async function readManifest(from: string): Promise<BackupManifest> {
  const file = path.join(from, MANIFEST_NAME);
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw new Refusal(`${from} is not a backup: it has no readable ${MANIFEST_NAME}`, { cause: error });
  });
  let manifest: Partial<BackupManifest> | null;
  try {
    manifest = JSON.parse(text) as Partial<BackupManifest> | null;
  } catch (error) {
    throw new Refusal(`the backup is damaged: ${file} is not JSON`, { cause: error });
  }
  if (manifest?.format !== BACKUP_FORMAT || !Array.isArray(manifest.files) || !Array.isArray(manifest.directories)) {
    throw new Refusal(`${file} is not of a format that this version of Robofleet reads`);
  }
  return manifest as BackupManifest;
}
