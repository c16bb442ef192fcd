import { mkdir, open, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { entriesOf, errorCode, exists, syncDirectory, writeDurably } from "../../../kernel/files.ts";
import { type BackupFile, copyHashed, Refusal } from "../embedded/index.ts";

/** Directory of artifacts in a data directory. The name of each file is its checksum. */
const ARTIFACTS = path.join("blobs", "blobs");
const FILES = ["node-id", "secrets.key"];
const DIRECTORIES = [ARTIFACTS, "tls"];
/** Matches temporary files, whose writer was interrupted before the rename. */
const HALF_WRITTEN = /\.(tmp|new)$/;
/** Names that Roamfleet creates in a data directory, including the database's: `postgres`, `postgres.lock`, `postgres.log.1`, … */
const KNOWN = /^(postgres(\..*)?|blobs|tls|node-id(\.tmp)?|secrets\.key(\.new)?|last-backup(\.new)?|restore-unfinished)$/;

/** Lists all files that a restore needs except the database, by relative path. */
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

/** Returns the top-level names in a data directory that do not belong to Roamfleet. Backups do not contain these files. */
export async function listStrange(data_directory: string): Promise<string[]> {
  return (await entriesOf(data_directory)).map(({ name }) => name).filter((name) => !KNOWN.test(name));
}

/** Names that may exist in a new data directory: hidden files, `lost+found`, and `demo` from `npm start`. */
const BESIDE = /^(lost\+found|demo|\..*)$/;

/** Returns whether a directory is not a data directory: it contains other files but none of Roamfleet's. */
export async function isForeign(data_directory: string): Promise<boolean> {
  const names = (await entriesOf(data_directory)).map(({ name }) => name).filter((name) => !BESIDE.test(name));
  return names.length > 0 && !names.some((name) => KNOWN.test(name));
}

interface CopiedData {
  files: BackupFile[];
  /** Artifacts whose bytes do not match the checksum in their name. */
  damaged: string[];
}

/**
 * Copies a data directory's files, without the database. Call it after copying the database. Then every artifact to which the copied
 * database refers is still on disk: an artifact is stored before the row of its release, and stays for a day after its last release is
 * deleted.
 */
export async function copyDataFiles(data_directory: string, to: string): Promise<CopiedData> {
  const files: BackupFile[] = [];
  const damaged: string[] = [];
  await mkdir(to, { mode: 0o700 });
  for await (const name of listFiles(data_directory)) {
    const target = path.join(to, name);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    const copied = await copyHashed(path.join(data_directory, name), target).catch((error: unknown) => {
      // The artifact was removed during the copy, which happens a day after its last release was deleted.
      if (errorCode(error) === "ENOENT") return undefined;
      throw error;
    });
    if (copied === undefined) continue;
    files.push({ path: name, ...copied });
    if (name.startsWith(ARTIFACTS) && path.basename(name) !== copied.sha256) damaged.push(name);
  }
  return { files, damaged };
}

/** Name of the file in a data directory that contains the time of its last complete backup. */
const FILE = "last-backup";

export const writeLastBackup = (data_directory: string, made_at: string): Promise<void> =>
  writeDurably(path.join(data_directory, FILE), `${made_at}\n`, 0o600);

/** Returns when the last complete backup was made; undefined without one. */
export async function readLastBackup(data_directory: string): Promise<Date | undefined> {
  const text = await readFile(path.join(data_directory, FILE), "utf8").catch(() => "");
  const at = new Date(text.trim());
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** Name of the marker file that a data directory contains while a restore fills it. */
const MARK = "restore-unfinished";

/** Throws Refusal if a restore into this data directory started and did not finish. */
export async function refuseUnfinished(data_directory: string): Promise<void> {
  const found = await exists(path.join(data_directory, MARK));
  if (!found) return;
  throw new Refusal(
    `a restore into ${data_directory} is running or was interrupted: if none is running, remove the contents of this directory and run roamfleet restore again`,
  );
}

/** Marks the directory as being restored. */
export async function markUnfinished(data_directory: string): Promise<void> {
  const handle = await open(path.join(data_directory, MARK), "wx", 0o600).catch(async (error: unknown) => {
    if (errorCode(error) === "EEXIST") await refuseUnfinished(data_directory);
    throw error;
  });
  await handle.close();
  await syncDirectory(data_directory);
}

export async function markFinished(data_directory: string): Promise<void> {
  await rm(path.join(data_directory, MARK), { force: true });
  await syncDirectory(data_directory);
}
