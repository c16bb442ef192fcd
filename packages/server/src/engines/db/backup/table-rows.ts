import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, copyFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import type { EngineLog } from "../../log.ts";
import type { DbAddress } from "../connections.ts";
import { type BackupFile, Refusal } from "../embedded/index.ts";
import { MIGRATION_TABLE, migrate, MIGRATIONS_DIRECTORY } from "../migrate.ts";
import { alignTables, columnList, listSequences, listTables, SAME_TEXT, type Sequence, setSequences, type Table } from "../tables.ts";
import { withClient } from "../with-client.ts";
import { damaged, readJson } from "./manifest.ts";

/** Manifest of a database backup by rows. The backup has this file, `rows.json`, and for each table a file in PostgreSQL's COPY format. */
interface RowsManifest {
  format: typeof FORMAT;
  /** Names of the migrations that created the tables, in order. */
  migrations: string[];
  tables: (Table & { file?: BackupFile; rows?: number })[];
  sequences: Sequence[];
}

const FORMAT = 1;
export const ROWS_MANIFEST = "rows.json";
const SCHEMA = "public";
/** A table name that needs no quoting in SQL, like all of Roamfleet's tables. */
const NAME = /^public\.[a-z][a-z0-9_]*$/;
const UNDEFINED_TABLE = "42P01";

/**
 * Writes the rows of every table to a new directory, from one snapshot. Needs no pg_dump and does not block writes. A table is locked
 * against being dropped only while it is read.
 *
 * @throws Refusal when the database is not Roamfleet's.
 */
export async function dumpRows(connection: DbAddress, to: string): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  await withBackupClient(connection, (holder) => withBackupClient(connection, (reader) => dumpAll(holder, reader, to)));
}

/** Reads each table in a separate transaction of `reader`. All use the snapshot that the open transaction of `holder` exports. */
async function dumpAll(holder: pg.Client, reader: pg.Client, to: string): Promise<void> {
  await holder.query("begin isolation level repeatable read read only");
  const snapshot = (await holder.query<{ id: string }>("select pg_export_snapshot() as id")).rows[0]?.id ?? "";
  const tables: RowsManifest["tables"] = await listTables(holder, SCHEMA);
  if (!tables.some(({ name }) => name === `${SCHEMA}.${MIGRATION_TABLE}`))
    throw new Refusal("the database contains no tables of Roamfleet: is DATABASE_URL correct?");
  const { rows } = await holder.query<{ name: string }>(`select name from ${SCHEMA}.${MIGRATION_TABLE} order by id`);
  for (const [index, table] of tables.entries()) {
    if (table.kind !== "r" || columnList(table) === "") continue;
    await reader.query("begin isolation level repeatable read read only");
    await reader.query(`set transaction snapshot '${snapshot}'`);
    const file = `${index}.rows`;
    Object.assign(table, await dumpTable(reader, table, to, file));
    await reader.query("commit");
  }
  const manifest: RowsManifest = {
    format: FORMAT,
    migrations: rows.map(({ name }) => name),
    tables,
    sequences: (await listSequences(holder)).filter(({ name }) => name.startsWith(`${SCHEMA}.`)),
  };
  await writeFile(path.join(to, ROWS_MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`, { mode: 0o600 });
}

async function dumpTable(reader: pg.Client, table: Table, to: string, file: string): Promise<{ file: BackupFile; rows: number }> {
  const hashing = new Hashing();
  const reading = reader.query(copyTo(`copy ${table.name} (${columnList(table)}) to stdout`));
  try {
    await pipeline(reading, hashing, createWriteStream(path.join(to, file), { flags: "wx", mode: 0o600 }));
  } catch (error) {
    // Retention dropped this daily log partition while this backup read earlier tables. The partition counts as empty.
    if (!(error instanceof pg.DatabaseError) || error.code !== UNDEFINED_TABLE || table.parent === null) throw error;
    await reader.query("rollback");
    return { file: { path: file, ...hashing.result() }, rows: 0 };
  }
  return { file: { path: file, ...hashing.result() }, rows: reading.rowCount };
}

/**
 * Loads a dump into an empty database: creates the schema with the dump's migrations, then inserts all rows in one transaction, so that an
 * interruption leaves no rows. Newer migrations run when the server first starts.
 *
 * @throws Refusal when the database has rows already, or the dump is damaged or of a newer version.
 */
export async function loadRows(connection: DbAddress, from: string, log: EngineLog): Promise<void> {
  const manifest = await readRows(from);
  await migrateAsThen(connection, manifest.migrations, log);
  await withBackupClient(connection, async (client) => {
    await client.query("begin");
    await alignTables(manifest.tables.map(plainTable), client, SCHEMA);
    const leaves = manifest.tables.filter(({ kind }) => kind === "r");
    await client.query(`delete from ${SCHEMA}.${MIGRATION_TABLE}`);
    for (const { name } of leaves) {
      const { rows } = await client.query(`select 1 from only ${name} limit 1`);
      if (rows.length > 0) throw new Refusal(`the database already has rows in ${name}: restore into a new, empty database`);
    }
    const keys = await dropForeignKeys(client);
    const triggers = await disableTriggers(client);
    for (const table of leaves) if (table.file !== undefined) await loadTable(client, table, table.file, from);
    for (const statement of [...triggers, ...keys]) await client.query(statement);
    await setSequences(client, manifest.sequences);
    await client.query("commit");
    await client.query("analyze");
  });
}

/** Returns a copy of a table with its fields in a fixed order, so that tables can be compared as JSON text. */
const plainTable = ({ name, kind, depth, parent, bound, columns }: Table): Table => ({ name, kind, depth, parent, bound, columns });

/** Returns the files of a backup of rows, from its manifest. Throws Refusal for a manifest of another format. */
export async function listRowFiles(from: string): Promise<BackupFile[]> {
  const { tables } = await readRows(from);
  return tables.flatMap(({ file }) => (file === undefined ? [] : [{ ...file, path: path.basename(file.path) }]));
}

async function readRows(from: string): Promise<RowsManifest> {
  const manifest = await readJson<RowsManifest>(from, ROWS_MANIFEST);
  if (
    manifest.format !== FORMAT ||
    !Array.isArray(manifest.tables) ||
    !Array.isArray(manifest.migrations) ||
    !Array.isArray(manifest.sequences)
  )
    throw new Refusal(`${path.join(from, ROWS_MANIFEST)} has a format that this version of Roamfleet cannot read`);
  // Only names need this check, because they become part of SQL. Bounds are rebuilt, and columns are compared with the schema.
  for (const name of [
    ...manifest.tables.flatMap(({ name, parent }) => [name, parent ?? name]),
    ...manifest.sequences.map(({ name }) => name),
  ]) {
    if (!NAME.test(name)) throw new Refusal(`the backup is damaged: ${ROWS_MANIFEST} contains an invalid table name`);
  }
  return manifest;
}

async function migrateAsThen(connection: DbAddress, names: readonly string[], log: EngineLog): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-migrations-"));
  try {
    for (const name of names) {
      const file = `${path.basename(name)}.sql`;
      await copyFile(path.join(MIGRATIONS_DIRECTORY, file), path.join(directory, file)).catch((error: unknown) => {
        throw new Refusal(`the backup belongs to a newer version of Roamfleet: it has migration ${name}. Restore with that version`, {
          cause: error,
        });
      });
    }
    await migrate(connection, { directory, log });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Drops all foreign keys, because they may form cycles. Returns the statements that create them again, which checks every row. */
async function dropForeignKeys(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string; table: string; definition: string }>(
    `select quote_ident(conname) as name, conrelid::regclass::text as table, pg_get_constraintdef(oid) as definition
     from pg_constraint where contype = 'f' and conparentid = 0 and connamespace = '${SCHEMA}'::regnamespace`,
  );
  for (const { name, table } of rows) await client.query(`alter table ${table} drop constraint ${name}`);
  return rows.map(({ name, table, definition }) => `alter table ${table} add constraint ${name} ${definition}`);
}

/** Disables all triggers, because the backup contains the rows that they wrote. Returns the statements that enable them again. */
async function disableTriggers(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string; table: string }>(
    `select quote_ident(tgname) as name, tgrelid::regclass::text as table
     from pg_trigger t join pg_class c on c.oid = t.tgrelid where not tgisinternal and c.relnamespace = '${SCHEMA}'::regnamespace`,
  );
  for (const { name, table } of rows) await client.query(`alter table ${table} disable trigger ${name}`);
  return rows.map(({ name, table }) => `alter table ${table} enable trigger ${name}`);
}

async function loadTable(client: pg.Client, table: Table, file: BackupFile, from: string): Promise<void> {
  const hashing = new Hashing();
  const writing = client.query(copyFrom(`copy ${table.name} (${columnList(table)}) from stdin`));
  try {
    await pipeline(createReadStream(path.join(from, path.basename(file.path))), hashing, writing);
  } catch (error) {
    if (hashing.result().sha256 === file.sha256) throw error;
    throw damaged(file.path);
  }
  const { bytes, sha256 } = hashing.result();
  if (bytes !== file.bytes || sha256 !== file.sha256) throw damaged(file.path);
}

/** Passes bytes through and records their number and hash. */
class Hashing extends Transform {
  readonly #hash = createHash("sha256");
  #bytes = 0;

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: (error: null, chunk: Buffer) => void): void {
    this.#hash.update(chunk);
    this.#bytes += chunk.byteLength;
    done(null, chunk);
  }

  result(): { bytes: number; sha256: string } {
    return { bytes: this.#bytes, sha256: this.#hash.copy().digest("hex") };
  }
}

/** Runs `use` with a connection whose session settings format values in the same way in every backup. */
const withBackupClient = <T>(connection: DbAddress, use: (client: pg.Client) => Promise<T>): Promise<T> =>
  withClient(
    connection,
    async (client) => {
      await client.query(SAME_TEXT);
      return await use(client);
    },
    { application_name: "roamfleet backup" },
  );
