import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import type { EngineLog } from "../log.ts";
import { Refusal } from "./embedded/index.ts";
import type { DbAddress } from "./connections.ts";
import { classify } from "./errors.ts";

/** Where this program's own migrations lie. */
export const MIGRATIONS_DIRECTORY = fileURLToPath(new URL("../../../migrations", import.meta.url));

/** Holds the names of the migrations that were run. */
export const MIGRATION_TABLE = "schema_migration";
const FILE_NAME = /^(\d{4}_[a-z0-9_]+)\.sql$/;
/** Of the next version, which this one can run on: it adds what the next one needs, or takes away what this one does without. */
const NEXT_VERSION = /^\d{4}_(expand|contract)_/;
const CONNECT_TIMEOUT_MS = 10_000;
/** Another node may be migrating a large database; past this something is wrong there. */
const LOCK_TIMEOUT_MS = 10 * 60_000;

/**
 * Brings a database to this program's schema: runs the files of `directory` (`0001_name.sql`, up
 * only, in order) that it has not seen, all in one transaction. Nodes that start at once wait for
 * each other. Answers the names that were run. A database of the next version, which other nodes run already, is left as it
 * is; of one later than that, or when it does not say that it suits this one, it rejects with nothing changed. So it does when a file
 * differs from what ran: the checksum of each is stored with its name. `on_schema` gets the names of all that the database has.
 */
export async function migrate(
  connection: DbAddress,
  options: { directory: string; log: EngineLog; on_schema?: (migrations: string[]) => Promise<void> },
): Promise<string[]> {
  const { directory, log } = options;
  const known = await migrationsIn(directory);
  const client = new pg.Client({
    ...(typeof connection === "string" ? { connectionString: connection } : connection),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: "roamfleet migrate",
  });
  client.on("error", (error) => log.warn({ err: error }, "the connection that migrates broke"));
  try {
    await client.connect();
    await client.query(`set lock_timeout to ${LOCK_TIMEOUT_MS}`);
    await client.query("select pg_advisory_lock(hashtext($1))", [MIGRATION_TABLE]);
    await client.query("set lock_timeout to 0");
    const ahead = await newerOne(client, known);
    await refuseChanged(client, directory);
    if (ahead !== undefined) {
      await options.on_schema?.(await listRun(client));
      log.warn({ migration: ahead }, "the database is one version ahead of this program");
      return [];
    }
    const run = await runPending(client, directory, log);
    await storeChecksums(client, directory);
    await options.on_schema?.(await listRun(client));
    if (run.length > 0) log.info({ migrations: run }, "database migrated");
    return run;
  } catch (error) {
    throw classify(error);
  } finally {
    // Ends the session, and with it the lock. Nothing to add when the connection is gone already.
    await client.end().catch(() => {});
  }
}

/** Names of the migrations of a directory. */
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

/** The one migration of the next version that was run besides all that are known; undefined: there is none, or more, or another one. */
export function oneAhead(run: readonly string[], known: ReadonlySet<string>): string | undefined {
  const [next, ...later] = run.filter((name) => !known.has(name));
  return next !== undefined && later.length === 0 && NEXT_VERSION.test(next) && run.length === known.size + 1 ? next : undefined;
}

/** As oneAhead; throws when the database is of a version that this one cannot run on. */
async function newerOne(client: pg.Client, known: ReadonlySet<string>): Promise<string | undefined> {
  const run = await listRun(client);
  const next = oneAhead(run, known);
  const unknown = run.filter((name) => !known.has(name));
  if (next === undefined && unknown.length > 0) {
    throw new Refusal(
      `this database belongs to a newer version of Roamfleet: it has migration ${unknown.join(", ")}, which this program does not know. Start the newer version, or restore a backup from before it.`,
    );
  }
  return next;
}

/** Names of the migrations that the database has, in the order in which they ran. */
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

/** Throws a Refusal when a migration that ran has another checksum than its file. One without a checksum ran before they were stored. */
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
      `migration ${name} of this program differs from the one that ran on this database: install an unchanged Roamfleet, or restore a backup of a database that this program made.`,
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
  // Loaded when needed: it pulls in a TypeScript loader and costs 150 ms that a client command need not pay.
  const { runner } = await import("node-pg-migrate");
  const quiet = {
    info() {},
    warn: (message: string) => log.warn({ detail: message }, "migration warning"),
    error: (message: string) => log.error({ detail: message }, "migration failed"),
  };
  const done = await runner({
    dbClient: client,
    dir: directory,
    direction: "up",
    migrationsTable: MIGRATION_TABLE,
    schema: "public",
    checkOrder: true,
    singleTransaction: true,
    // Ours is held by this session already; theirs is shared by every program that uses the library.
    noLock: true,
    logger: quiet,
  });
  return done.map((migration) => migration.name);
}
