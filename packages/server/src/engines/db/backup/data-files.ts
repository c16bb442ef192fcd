import { mkdir, readdir } from "node:fs/promises";
import path from "node:path";
import { type BackupFile, copyHashed, errorCode } from "../embedded/index.ts";

/** Artifacts in a data directory, each named by its checksum. */
const ARTIFACTS = path.join("blobs", "blobs");
const FILES = ["node-id", "secrets.key"];
const DIRECTORIES = [ARTIFACTS, "tls"];
/** Temporary files whose writer was interrupted before the rename. */
const HALF_WRITTEN = /\.(tmp|new)$/;
/** Files that a start creates again, or that the database's own backup contains: `postgres`, `postgres.lock`, `postgres.log.1`, … */
const KNOWN = /^(postgres(\..*)?|blobs|tls|node-id(\.tmp)?|secrets\.key(\.new)?|last-backup(\.new)?|restore-unfinished)$/;

/** Lists the files that a restore needs beside the database, by relative path. */
async function* listFiles(data_directory: string): AsyncGenerator<string> {
  for (const name of FILES) yield name;
  for (const directory of DIRECTORIES) yield* walk(data_directory, directory);
}

async function* walk(root: string, relative: string): AsyncGenerator<string> {
  for (const entry of await entriesOf(path.join(root, relative))) {
    const name = path.join(relative, entry.name);
    if (entry.isDirectory()) yield* walk(root, name);
    else if (entry.isFile() && !HALF_WRITTEN.test(entry.name)) yield name;
  }
}

/** Returns the names at the top of a data directory that are not Roamfleet's. A backup does not contain them. */
export async function listStrange(data_directory: string): Promise<string[]> {
  return (await entriesOf(data_directory)).map(({ name }) => name).filter((name) => !KNOWN.test(name));
}

/** Names that file systems, people and `npm start` may create in a directory before the first start. */
const BESIDE = /^(lost\+found|demo|\..*)$/;

/** Returns whether a directory has files but none of a data directory. */
export async function isForeign(data_directory: string): Promise<boolean> {
  const names = (await entriesOf(data_directory)).map(({ name }) => name).filter((name) => !BESIDE.test(name));
  return names.length > 0 && !names.some((name) => KNOWN.test(name));
}

export interface CopiedData {
  files: BackupFile[];
  /** Artifacts whose bytes do not match the checksum in their name. */
  damaged: string[];
}

/**
 * Copies a data directory's files, without the database. Call it after copying the database: an artifact is on disk before its release's
 * row, and stays for a day after the last release that refers to it.
 */
export async function copyDataFiles(data_directory: string, to: string): Promise<CopiedData> {
  const files: BackupFile[] = [];
  const damaged: string[] = [];
  await mkdir(to, { mode: 0o700 });
  for await (const name of listFiles(data_directory)) {
    const target = path.join(to, name);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    const copied = await copyHashed(path.join(data_directory, name), target).catch((error: unknown) => {
      // Removed meanwhile: an artifact without a release for a day.
      if (errorCode(error) === "ENOENT") return undefined;
      throw error;
    });
    if (copied === undefined) continue;
    files.push({ path: name, ...copied });
    if (name.startsWith(ARTIFACTS) && path.basename(name) !== copied.sha256) damaged.push(name);
  }
  return { files, damaged };
}

async function entriesOf(directory: string) {
  return readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  });
}
