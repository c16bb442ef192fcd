import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { hashFile } from "../../../kernel/files.ts";
import { type BackupFile, Refusal } from "../embedded/index.ts";

/**
 * Contents of a backup's `manifest.json`, which lists the backup's files. It is written last, so a backup without it is incomplete. The
 * database directory has a separate manifest, whose checksum is in this one.
 */
export interface Manifest {
  format: typeof FORMAT;
  made_at: string;
  /** `postgres`: a copy of the embedded database's files. `tables`: the rows of each table, from an external PostgreSQL. */
  database: "postgres" | "tables";
  /** Checksum of the database's own manifest. */
  database_manifest: BackupFile;
  /** The data directory's other files, with their paths below `data/`. */
  files: BackupFile[];
}

export const FORMAT = 2;
export const MANIFEST_FILE = "manifest.json";
/** Name of the directory in a backup that contains everything except the database. */
export const DATA = "data";

/** Returns the size and checksum of a file. `relative` is its path below `directory`. */
export async function describeFile(directory: string, relative: string): Promise<BackupFile> {
  return { path: relative, ...(await hashFile(path.join(directory, relative))) };
}

/**
 * Reads a backup's manifest. The paths in it are inside the backup, but the files may be missing or damaged.
 *
 * @throws Refusal when the backup is not complete.
 */
export async function readManifest(from: string): Promise<Manifest> {
  const manifest = await readJson<Manifest>(from, MANIFEST_FILE);
  const { database, database_manifest, files } = manifest;
  if (manifest.format !== FORMAT || !["postgres", "tables"].includes(database) || !Array.isArray(files) || !isFile(database_manifest))
    throw new Refusal(`${path.join(from, MANIFEST_FILE)} has a format that this version of Roamfleet cannot read`);
  for (const file of files) {
    if (!isFile(file) || isOfDatabase(file.path)) throw new Refusal(`the backup is damaged: ${MANIFEST_FILE} lacks the name of a file`);
  }
  return manifest;
}

/**
 * Reads a backup's manifest, and checks that each listed file exists and has the listed size.
 *
 * @throws Refusal when the backup is not complete.
 */
export async function readWholeManifest(from: string): Promise<Manifest> {
  const manifest = await readManifest(from);
  const { database_manifest, files } = manifest;
  for (const file of files) await requireSize(path.join(from, DATA), file);
  await requireSize(from, database_manifest);
  const { sha256 } = await describeFile(from, database_manifest.path);
  if (sha256 !== database_manifest.sha256) throw damaged(database_manifest.path);
  return manifest;
}

/** Reads a JSON file of a backup. Throws Refusal if it is missing or not JSON. */
export async function readJson<T>(from: string, relative: string): Promise<Partial<T> & T> {
  const text = await readFile(path.join(from, relative), "utf8").catch((error: unknown) => {
    throw new Refusal(
      `${from} is not a complete backup: it has no readable ${relative}, so it was probably interrupted. Use another backup, or create a new one`,
      { cause: error },
    );
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Refusal(`the backup is damaged: ${relative} is not JSON`, { cause: error });
  }
  if (typeof value !== "object" || value === null)
    throw new Refusal(`${path.join(from, relative)} has a format that this version of Roamfleet cannot read`);
  return value as T;
}

export const damaged = (name: string): Refusal =>
  new Refusal(`the backup is damaged: ${name} differs from what was backed up. Use another backup`);

/** Checks a file entry of a manifest. A manifest is untrusted input: its paths must not leave the directory. */
function isFile(file: BackupFile | undefined): file is BackupFile {
  return (
    typeof file?.path === "string" &&
    typeof file.bytes === "number" &&
    typeof file.sha256 === "string" &&
    !path.isAbsolute(file.path) &&
    !file.path.split("/").includes("..")
  );
}

/** Returns whether a path is in the database's directory. A restore must not write the manifest's other files there. */
const isOfDatabase = (name: string): boolean => /^postgres($|[./])/.test(path.normalize(name));

async function requireSize(directory: string, { path: name, bytes }: BackupFile): Promise<void> {
  const info = await stat(path.join(directory, name)).catch((error: unknown) => {
    throw new Refusal(`the backup is damaged: it lacks ${name}. Use another backup`, { cause: error });
  });
  if (info.size !== bytes) throw damaged(name);
}
