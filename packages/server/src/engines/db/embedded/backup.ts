import { createHash } from "node:crypto";
import { mkdir, mkdtemp, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type pg from "pg";
import { entriesOf, errorCode, syncDirectory } from "../../../kernel/files.ts";
import { withClient } from "../with-client.ts";
import type { Connection } from "./cluster.ts";
import { Refusal } from "./refusal.ts";
import { syncTree } from "./run.ts";

/** Contents of a database backup's `manifest.json`. */
export interface BackupManifest {
  format: 1;
  /** PostgreSQL major version of the database. Only this version can start the restored database. */
  postgresql: number;
  /** PostgreSQL's identifier of the source database. */
  system_identifier: string;
  made_at: string;
  start_lsn: string;
  stop_lsn: string;
  /** Relative paths of the directories, parents first. */
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
/** Name of the directory inside a backup that contains the copied database directory. */
export const DATABASE_NAME = "database";

const COPY_BUFFER_BYTES = 1024 * 1024;

/** Copies a file in bounded memory. Returns the size and checksum of the copy, because the source may change meanwhile. */
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
 * Lists a live data directory by the rules of a base backup (PostgreSQL manual, "Making a Base Backup Using the Low Level API"). Files may
 * vanish while they are listed: they were dropped after the backup began, and recovery drops them again.
 */
async function listDatabaseFiles(directory: string): Promise<{ directories: string[]; files: string[] }> {
  const directories: string[] = [];
  const files: string[] = [];
  const visit = async (relative: string): Promise<void> => {
    const entries = await entriesOf(path.join(directory, relative));
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

export interface BackupOptions {
  /** Superuser connection to the running database. */
  connection: Connection;
  /** The database's directory on this machine. */
  dataDirectory: string;
  /** Directory for the backup: absent or empty. */
  to: string;
}

const PG_CONTROL = path.join("global", "pg_control");
const PG_CONTROL_READS_MAX = 100;

/**
 * Copies a running database, without blocking writes, to a new directory for `restore`. The copy is consistent and contains everything
 * committed before the call, and some of the writes during it.
 *
 * @returns what was written, with a checksum per file
 * @throws Refusal when `to` has contents; Error when the copy is incomplete. Then nothing is left at `to`.
 */
export async function backup({ connection, dataDirectory, to }: BackupOptions): Promise<BackupManifest> {
  const target = path.resolve(to);
  if ((await entriesOf(target)).length > 0) throw new Refusal(`${target} is not empty: choose a new directory for the backup`);
  await mkdir(path.dirname(target), { recursive: true });
  const partial = await mkdtemp(`${target}.partial-`);
  try {
    const manifest = await withClient(connection, (client) => copyRunning(client, dataDirectory, path.join(partial, DATABASE_NAME)));
    await writeFile(path.join(partial, MANIFEST_NAME), `${JSON.stringify(manifest, null, 1)}\n`, { mode: 0o600 });
    await syncTree(partial);
    await rename(partial, target);
    await syncDirectory(path.dirname(target));
    return manifest;
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  }
}

/** Copies a running database over one session. If the session ends, PostgreSQL aborts the backup and drops the temporary slot. */
async function copyRunning(client: pg.Client, dataDirectory: string, target: string): Promise<BackupManifest> {
  const tablespaces = await readdir(path.join(dataDirectory, "pg_tblspc"));
  if (tablespaces.length > 0) throw new Refusal("the database uses tablespaces, which this backup does not copy: use pg_basebackup");
  // With this slot, PostgreSQL keeps the write-ahead log of the whole backup, even if much is written during the backup.
  await client.query("select pg_create_physical_replication_slot('roamfleet_backup_' || pg_backend_pid(), true, true)");
  const start = await one<{ lsn: string; wal: string }>(
    client,
    "select lsn::text, pg_walfile_name(lsn) as wal from pg_backup_start('roamfleet backup', true) as lsn",
  );

  const listed = await listDatabaseFiles(dataDirectory);
  await mkdir(target, { mode: 0o700 });
  for (const name of listed.directories) await mkdir(path.join(target, name), { recursive: true, mode: 0o700 });
  const files: BackupFile[] = [];
  for (const name of listed.files) {
    const copied =
      name === PG_CONTROL ? await copyControlFile(dataDirectory, target) : await copyUnlessDropped(dataDirectory, target, name);
    if (copied) files.push({ path: name, ...copied });
  }

  const stop = await one<{ lsn: string; wal: string; label: string }>(
    client,
    "select lsn::text, pg_walfile_name(lsn) as wal, labelfile as label from pg_backup_stop(false)",
  );
  for (const name of await listLog(dataDirectory, start.wal, stop.wal)) {
    const relative = path.join("pg_wal", name);
    files.push({ path: relative, ...(await copyHashed(path.join(dataDirectory, relative), path.join(target, relative))) });
  }
  // Recovery must start from the backup label, not from pg_control. Without the label, the copy would start but be silently corrupt.
  const label = path.join(target, "backup_label");
  await writeFile(`${label}.new`, stop.label, { mode: 0o600 });
  files.push({ path: "backup_label", ...(await copyHashed(`${label}.new`, label)) });
  await rm(`${label}.new`);

  const about = await one<{ postgresql: number; system_identifier: string; made_at: string }>(
    client,
    `select current_setting('server_version_num')::int / 10000 as postgresql, system_identifier::text,
       to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as made_at from pg_control_system()`,
  );
  return { format: BACKUP_FORMAT, ...about, start_lsn: start.lsn, stop_lsn: stop.lsn, directories: listed.directories, files };
}

async function one<Row extends pg.QueryResultRow>(client: pg.Client, text: string): Promise<Row> {
  const row = (await client.query<Row>(text)).rows[0];
  if (!row) throw new Error("PostgreSQL returned no row");
  return row;
}

async function copyUnlessDropped(from: string, to: string, name: string): Promise<{ bytes: number; sha256: string } | undefined> {
  try {
    return await copyHashed(path.join(from, name), path.join(to, name));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Copies pg_control until two reads are equal. A single read may be inconsistent, because each checkpoint rewrites the file in place. */
async function copyControlFile(from: string, to: string): Promise<{ bytes: number; sha256: string }> {
  const place = path.join(to, PG_CONTROL);
  for (let reads = 0; reads < PG_CONTROL_READS_MAX; reads += 1) {
    const before = await readFile(path.join(from, PG_CONTROL));
    const copied = await copyHashed(path.join(from, PG_CONTROL), place);
    if (before.equals(await readFile(place))) return copied;
    await rm(place);
  }
  throw new Error("pg_control kept changing");
}

/** Returns the names of the write-ahead log segments from `first` to `last`, and of the timeline histories. */
async function listLog(dataDirectory: string, first: string, last: string): Promise<string[]> {
  const names = await readdir(path.join(dataDirectory, "pg_wal"));
  const segments = names.filter((name) => /^[0-9A-F]{24}$/.test(name) && name >= first && name <= last).toSorted();
  if (segments[0] !== first || segments.at(-1) !== last) throw new Error(`the log from ${first} to ${last} is not complete`);
  return [...names.filter((name) => name.endsWith(".history")), ...segments];
}
