import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readdir } from "node:fs/promises";
import path from "node:path";
import { errorCode } from "./refusal.ts";

/** Contents of a backup beside the files, as `manifest.json`. */
export interface BackupManifest {
  format: 1;
  /** Major version that can start the restored database. */
  postgresql: number;
  /** PostgreSQL's identifier of the source database. */
  system_identifier: string;
  made_at: string;
  start_lsn: string;
  stop_lsn: string;
  /** Relative paths, parents first. */
  directories: string[];
  files: BackupFile[];
}

export interface BackupFile {
  path: string;
  bytes: number;
  sha256: string;
}

export const BACKUP_FORMAT = 1;
export const MANIFEST_NAME = "manifest.json";
/** The copied data directory inside a backup. */
export const DATABASE_NAME = "database";

const COPY_BUFFER_BYTES = 1024 * 1024;

/** Copies a file in bounded memory and returns what was written. The source may change meanwhile: copying stops at its end. */
export async function copyHashed(from: string, to: string): Promise<{ bytes: number; sha256: string }> {
  const source = await open(from, "r");
  try {
    const target = await open(to, "wx", 0o600);
    try {
      const hash = createHash("sha256");
      const { size } = await source.stat();
      const buffer = Buffer.allocUnsafe(Math.min(Math.max(size, 512), COPY_BUFFER_BYTES));
      let bytes = 0;
      for (;;) {
        const { bytesRead } = await source.read(buffer, 0, buffer.length, bytes);
        if (bytesRead === 0) break;
        const part = buffer.subarray(0, bytesRead);
        hash.update(part);
        await target.writeFile(part);
        bytes += bytesRead;
      }
      return { bytes, sha256: hash.digest("hex") };
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

/** Returns size and checksum of a file, read in bounded memory. */
export async function hashFile(file: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const part of createReadStream(file, { highWaterMark: COPY_BUFFER_BYTES }) as AsyncIterable<Buffer>) {
    hash.update(part);
    bytes += part.length;
  }
  return { bytes, sha256: hash.digest("hex") };
}

/** Directories whose contents PostgreSQL creates at each start. The directories themselves must exist. */
const CONTENTS_LEFT_OUT = new Set([
  "pg_dynshmem",
  "pg_notify",
  "pg_replslot",
  "pg_serial",
  "pg_snapshots",
  "pg_stat_tmp",
  "pg_subtrans",
  "pg_wal",
]);
const FILES_LEFT_OUT = new Set([
  "postmaster.pid",
  "postmaster.opts",
  "backup_label",
  "backup_label.old",
  "tablespace_map",
  "tablespace_map.old",
  "current_logfiles",
]);

const isLeftOut = (name: string): boolean =>
  FILES_LEFT_OUT.has(name) || name.startsWith("pgsql_tmp") || name.startsWith("pg_internal.init");

/**
 * Lists a live data directory by the rules of a base backup (PostgreSQL manual, "Making a Base Backup Using the Low Level API"). Files that
 * vanish meanwhile were dropped after the backup began. Replaying the log drops them again.
 */
export async function listDatabaseFiles(directory: string): Promise<{ directories: string[]; files: string[] }> {
  const directories: string[] = [];
  const files: string[] = [];
  const visit = async (relative: string): Promise<void> => {
    const entries = await readdir(path.join(directory, relative), { withFileTypes: true }).catch(missingIsEmpty);
    for (const entry of entries) {
      const name = path.join(relative, entry.name);
      if (isLeftOut(entry.name)) continue;
      if (entry.isFile()) files.push(name);
      if (!entry.isDirectory()) continue;
      directories.push(name);
      if (!CONTENTS_LEFT_OUT.has(name)) await visit(name);
    }
  };
  await visit("");
  directories.push(path.join("pg_wal", "archive_status"));
  return { directories, files };
}

export function missingIsEmpty(error: unknown): [] {
  if (errorCode(error) === "ENOENT") return [];
  throw error;
}
