import { mkdir, readdir } from "node:fs/promises";
import path from "node:path";
import { type BackupFile, copyHashed, errorCode } from "../embedded/index.ts";

/** Where artifacts lie in a data directory, each named by its checksum. */
const ARTIFACTS = path.join("blobs", "blobs");
const FILES = ["node-id", "secrets.key"];
const DIRECTORIES = [ARTIFACTS, "tls"];
/** Half of a file that its writer did not come to rename. */
const HALF_WRITTEN = /\.(tmp|new)$/;
/** What a start makes anew, or the database's own backup holds: `postgres`, `postgres.lock`, `postgres.log.1`, … */
const KNOWN = /^(postgres(\..*)?|blobs|tls|node-id(\.tmp)?|secrets\.key(\.new)?|last-backup(\.new)?|restore-unfinished)$/;

/** What of a data directory a restore needs beside the database, by relative path. */
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

/** Names at the top of a data directory that are none of ours: a backup does not hold them. */
export async function listStrange(data_directory: string): Promise<string[]> {
  return (await entriesOf(data_directory)).map(({ name }) => name).filter((name) => !KNOWN.test(name));
}

/** What file systems, people and `npm start` put into a directory before the first start. */
const BESIDE = /^(lost\+found|demo|\..*)$/;

/** Whether a directory has files and none of them is of a data directory. */
export async function isForeign(data_directory: string): Promise<boolean> {
  const names = (await entriesOf(data_directory)).map(({ name }) => name).filter((name) => !BESIDE.test(name));
  return names.length > 0 && !names.some((name) => KNOWN.test(name));
}

export interface CopiedData {
  files: BackupFile[];
  /** Artifacts whose bytes are not those that their name promises. */
  damaged: string[];
}

/**
 * Copies a data directory's files, without the database. Called after the database's copy: a stored release's artifact is
 * on the disk before its row says so, and stays for a day after the last release that names it.
 */
export async function copyDataFiles(data_directory: string, to: string): Promise<CopiedData> {
  const files: BackupFile[] = [];
  const damaged: string[] = [];
  await mkdir(to, { mode: 0o700 });
  for await (const name of listFiles(data_directory)) {
    const target = path.join(to, name);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    const copied = await copyHashed(path.join(data_directory, name), target).catch((error: unknown) => {
      // Removed meanwhile: an artifact that nobody had named for a day.
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
