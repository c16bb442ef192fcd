import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import type pg from "pg";
import { writeDurably } from "../../kernel/files.ts";
import { PACKAGE_DIRECTORY } from "../../kernel/package-directory.ts";
import type { EngineLog } from "../log.ts";
import type { DbAddress } from "./connections.ts";
import { Refusal } from "./embedded/index.ts";
import { classify, isRetryable } from "./errors.ts";
import { withClient } from "./with-client.ts";

/** Directory of this program's migrations. */
export const MIGRATIONS_DIRECTORY = path.join(PACKAGE_DIRECTORY, "migrations");

/** Name of the table that lists the completed migrations. */
export const MIGRATION_TABLE = "schema_migration";
const FILE_NAME = /^(\d{4}_[a-z0-9_]+)\.sql$/;
/** Names of migrations that the previous version of the program tolerates: they only add, or remove what that version does not use. */
const NEXT_VERSION = /^\d{4}_(expand|contract)_/;
/** Timeout for taking the migration lock. It is long, because another node may be migrating a large database. */
const LOCK_TIMEOUT_MS = 10 * 60_000;
/** Maximum repetitions after deadlocks with transactions of running servers. PostgreSQL reports each after a second. */
const RETRIES_MAX = 5;

/**
 * Migrates a database to this program's schema: runs the new files of `directory` (`0001_name.sql`, up only, in order), all in one
 * transaction. Nodes that start concurrently wait for each other. Returns the names of the migrations that ran. A database that is one
 * compatible migration ahead is accepted unchanged, because newer nodes may already use it. Rejects without changes if the database is
 * further ahead or incompatible, or if a file differs from the stored checksum of the migration that ran. `on_schema` receives the names
 * of all migrations in the database.
 */
export async function migrate(
  connection: DbAddress,
  options: { directory: string; log: EngineLog; on_schema?: (migrations: string[]) => Promise<void> },
): Promise<string[]> {
  const { directory, log } = options;
  const known = await migrationsIn(directory);
  const run = async (client: pg.Client): Promise<string[]> => {
    await client.query(`set lock_timeout to ${LOCK_TIMEOUT_MS}`);
    // The end of the session releases this lock.
    await client.query("select pg_advisory_lock(hashtext($1))", [MIGRATION_TABLE]);
    await client.query("set lock_timeout to 0");
    const ahead = await newerOne(client, known);
    await refuseChanged(client, directory);
    if (ahead !== undefined) {
      await options.on_schema?.(await listRun(client));
      log.warn({ migration: ahead }, "the database is one version newer than this program");
      return [];
    }
    const before = await listRun(client);
    // False if the migrations ran in another order. The library then refuses the database.
    const is_current = isDeepStrictEqual(before, [...known].toSorted());
    const done = is_current ? [] : await runPending(client, directory, log);
    await storeChecksums(client, directory);
    await options.on_schema?.(await listRun(client));
    if (done.length > 0) log.info({ migrations: done }, "database migrated");
    return done;
  };
  try {
    const onLost = (error: Error): void => log.warn({ err: error }, "the connection for the migrations was lost");
    return await withClient(connection, run, { application_name: "roamfleet migrate", onLost });
  } catch (error) {
    throw classify(error);
  }
}

/** Returns the names of the migrations in a directory. */
export async function migrationsIn(directory: string): Promise<Set<string>> {
  const known = new Set<string>();
  for (const file of await readdir(directory)) {
    const name = FILE_NAME.exec(file)?.[1];
    if (name === undefined) throw new Error(`${directory} holds ${file}, which is not a migration (0001_name.sql)`);
    known.add(name);
  }
  if (known.size === 0) throw new Error(`no migrations in ${directory}`);
  return known;
}

/** Returns the only unknown migration if this program tolerates it. Returns undefined if it does not, or if none or several are unknown. */
export function oneAhead(run: readonly string[], known: ReadonlySet<string>): string | undefined {
  const [next, ...later] = run.filter((name) => !known.has(name));
  return next !== undefined && later.length === 0 && NEXT_VERSION.test(next) && run.length === known.size + 1 ? next : undefined;
}

/** Like `oneAhead`, but reads the connected database, and throws a Refusal if this program cannot use that database. */
async function newerOne(client: pg.Client, known: ReadonlySet<string>): Promise<string | undefined> {
  const run = await listRun(client);
  const next = oneAhead(run, known);
  const unknown = run.filter((name) => !known.has(name));
  if (next === undefined && unknown.length > 0) {
    throw new Refusal(
      `this database belongs to a newer version of Roamfleet: it has migration ${unknown.join(", ")}, which this program does not have. Start the newer version, or restore a backup made before the upgrade.`,
    );
  }
  return next;
}

/** Returns the names of the database's migrations in the order in which they ran. */
async function listRun(client: pg.Client): Promise<string[]> {
  const table = await client.query<{ present: boolean }>(`select to_regclass('public.${MIGRATION_TABLE}') is not null as present`);
  if (table.rows[0]?.present !== true) return [];
  const { rows } = await client.query<{ name: string }>(`select name from public.${MIGRATION_TABLE} order by id`);
  return rows.map((row) => row.name);
}

const checksumOf = async (directory: string, name: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(path.join(directory, `${name}.sql`)))
    .digest("hex");

/** Throws a Refusal if the checksum of a file differs from that of the completed migration. Skips migrations without a stored checksum. */
async function refuseChanged(client: pg.Client, directory: string): Promise<void> {
  const known = await migrationsIn(directory);
  const column = await client.query(
    "select from pg_attribute where attrelid = to_regclass($1) and attname = 'checksum' and not attisdropped",
    [`public.${MIGRATION_TABLE}`],
  );
  if (column.rowCount === 0) return;
  const { rows } = await client.query<{ name: string; checksum: string | null }>(
    `select name, checksum from public.${MIGRATION_TABLE} order by id`,
  );
  for (const { name, checksum } of rows) {
    if (checksum === null || !known.has(name) || checksum === (await checksumOf(directory, name))) continue;
    throw new Refusal(
      `migration ${name} of this program differs from the one that ran on this database: install an unchanged Roamfleet, or restore a backup of a database that this version created.`,
    );
  }
}

async function storeChecksums(client: pg.Client, directory: string): Promise<void> {
  await client.query(`alter table public.${MIGRATION_TABLE} add column if not exists checksum text`);
  const { rows } = await client.query<{ name: string }>(`select name from public.${MIGRATION_TABLE} where checksum is null`);
  for (const { name } of rows)
    await client.query(`update public.${MIGRATION_TABLE} set checksum = $2 where name = $1`, [name, await checksumOf(directory, name)]);
}

async function runPending(client: pg.Client, directory: string, log: EngineLog): Promise<string[]> {
  // Loaded on demand: it imports a TypeScript loader, which takes 150 ms and is not needed if the database is up to date.
  const { runner } = await import("node-pg-migrate");
  const quiet = {
    info() {},
    warn: (message: string) => log.warn({ detail: message }, "migration warning"),
    error: (message: string) => log.error({ detail: message }, "migration failed"),
  };
  for (let attempt = 0; ; attempt += 1) {
    try {
      const done = await runner({
        dbClient: client,
        dir: directory,
        direction: "up",
        migrationsTable: MIGRATION_TABLE,
        schema: "public",
        checkOrder: true,
        singleTransaction: true,
        // This session already has Roamfleet's lock. The library's lock would also conflict with other programs that use the library.
        noLock: true,
        logger: quiet,
      });
      return done.map((migration) => migration.name);
    } catch (error) {
      if (attempt === RETRIES_MAX || !isRetryable(error)) throw error;
      log.warn({ err: error, attempt }, "the migrations conflicted with a running server and are repeated");
    }
  }
}

const FILE = "postgres.schema";

/** Schema of the embedded database, as recorded in a file by the last server that used it. It is readable while the database is stopped. */
interface SchemaRecord {
  /** Version of the program. */
  version: string;
  /** Names of the migrations, in the order in which they ran. */
  migrations: string[];
}

export const writeSchemaRecord = (data_directory: string, record: SchemaRecord): Promise<void> =>
  writeDurably(path.join(data_directory, FILE), `${JSON.stringify(record)}\n`, 0o644);

/** Reads the schema record. Returns undefined if it is missing or unreadable; callers then check the database itself. */
export async function readSchemaRecord(data_directory: string): Promise<SchemaRecord | undefined> {
  try {
    const { version, migrations } = JSON.parse(await readFile(path.join(data_directory, FILE), "utf8")) as Partial<SchemaRecord>;
    return typeof version === "string" && Array.isArray(migrations) ? { version, migrations } : undefined;
  } catch {
    return undefined;
  }
}
