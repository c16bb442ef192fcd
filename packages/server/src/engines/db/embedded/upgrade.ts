import { rm } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock } from "@roamfleet/clock";
import type pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { alignTables, columnList, listSequences, listTables, SAME_TEXT, setSequences, type Table } from "../tables.ts";
import { withClient } from "../with-client.ts";
import { chooseBinaries, readMajor } from "./binaries.ts";
import { type Cluster, type ClusterOptions, type Connection, openCluster, placeDirectory, removeSocketDirectory } from "./cluster.ts";
import { bringUp, killPostgresOn, type Running, shutDown } from "./launch.ts";
import { lockDirectory } from "./lock.ts";
import type { EngineLog } from "../../log.ts";
import { Refusal } from "./refusal.ts";
import { syncTree } from "./run.ts";
import { connectionTo, ensureDatabase, finishSwitch, switchDirectories } from "./supervisor.ts";
import { exists } from "../../../kernel/files.ts";

/**
 * Replaces the contents of every table of `target` by those of `source`, then compares row count and checksum of each table. Both databases
 * must have the same schema; missing partitions are created. There must be no other connections.
 *
 * @returns how many tables and rows were copied
 * @throws Error that names the first table that differs
 */
async function copyTables(source: pg.Client, target: pg.Client, log: EngineLog): Promise<{ tables: number; rows: number }> {
  for (const client of [source, target]) await client.query(SAME_TEXT);
  await source.query("begin isolation level repeatable read read only");
  // Disables foreign keys, which may form cycles. They are valid in the source, and the comparison proves that the copy is equal.
  await target.query("set session_replication_role = replica");
  const tables = await listTables(source);
  await alignTables(tables, target);
  const leaves = tables.filter(({ kind }) => kind === "r");
  if (tables.length > 0) await target.query(`truncate ${tables.map(({ name }) => name).join(", ")}`);
  for (const table of leaves) await copyRows(source, target, table);
  await setSequences(target, await listSequences(source));
  let rows = 0;
  for (const { name } of leaves) {
    const [was, is] = [await digest(source, name), await digest(target, name)];
    if (was.count !== is.count || was.sum !== is.sum)
      throw new Error(`the copy of ${name} differs: ${was.count} rows became ${is.count}, or their contents changed`);
    rows += Number(is.count);
    log.info({ table: name, rows: Number(is.count) }, "table copied and compared");
  }
  await source.query("commit");
  await target.query("analyze");
  return { tables: leaves.length, rows };
}

async function copyRows(source: pg.Client, target: pg.Client, table: Table): Promise<void> {
  const { name } = table;
  const list = columnList(table);
  if (list === "") return;
  const reading = source.query(copyTo(`copy ${name} (${list}) to stdout`));
  const writing = target.query(copyFrom(`copy ${name} (${list}) from stdin`));
  await pipeline(reading, writing);
}

/** Returns the row count and an order-independent checksum of a table's rows, as text. */
async function digest(client: pg.Client, name: string): Promise<{ count: string; sum: string }> {
  const { rows } = await client.query<{ count: string; sum: string }>(
    `select count(*)::text as count, coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text as sum from only ${name} t`,
  );
  return rows[0] ?? { count: "", sum: "" };
}

export interface UpgradeOptions extends ClusterOptions {
  /** The database's directory. No server may use it. */
  directory: string;
  /** Migrates a database to the current schema. Called first for the old database, then for the new one. */
  migrate: (connection: Connection) => Promise<unknown>;
}

export interface UpgradeResult {
  from: number;
  to: number;
  /** Path of the old database, which is kept; undefined if there was nothing to upgrade. */
  kept: string | undefined;
  tables: number;
  rows: number;
}

/**
 * Moves the database to the newest installed PostgreSQL: creates a new database beside the old one, copies and compares every table, then
 * switches by rename. The old one stays as `<directory>.<major>.old`. After an error or kill, the old database is in place and complete,
 * but its schema may have been migrated. After a kill during the switch, the next start finishes the switch.
 *
 * @throws Refusal when there is nothing to upgrade from or to; Error when the copy is not equal.
 */
export async function upgradeDatabase({ directory: given, migrate, ...options }: UpgradeOptions): Promise<UpgradeResult> {
  const directory = await placeDirectory(given);
  const lock = await lockDirectory(directory);
  const next = `${directory}.upgrade`;
  try {
    await finishSwitch(directory, options.log);
    const from = await readMajor(directory);
    if (from === undefined) throw new Refusal(`there is no database in ${directory}`);
    await chooseBinaries(directory, options.sources);
    await clear(next, options.clock);
    const { major: to } = await chooseBinaries(next, options.sources);
    if (to < from) throw new Refusal(`the database uses PostgreSQL ${from}; the newest installed is ${to}`);
    if (to === from) return { from, to, kept: undefined, tables: 0, rows: 0 };
    const kept = `${directory}.${from}.old`;
    if (await exists(kept)) throw new Refusal(`${kept} exists: first move away the database that an earlier upgrade kept`);

    options.log.info({ from, to }, "upgrading the database");
    const copied = await copyInto(directory, next, migrate, options);
    await syncTree(next);
    await switchDirectories(directory, { upgraded: path.basename(next), kept: path.basename(kept) }, options.log);
    return { from, to, kept, ...copied };
  } finally {
    await clear(next, options.clock);
    await removeSocketDirectory(directory);
    await lock.release();
  }
}

/** Starts both databases, copies the tables, and stops both databases, even after an error. */
async function copyInto(
  directory: string,
  next: string,
  migrate: UpgradeOptions["migrate"],
  options: ClusterOptions,
): Promise<{ tables: number; rows: number }> {
  const opened: { cluster: Cluster; running: Running }[] = [];
  const open = async (place: string): Promise<Connection> => {
    const cluster = await openCluster(place, options);
    const running = await bringUp(cluster);
    opened.push({ cluster, running });
    const connection = connectionTo(running);
    await ensureDatabase(connection);
    await migrate(connection);
    return connection;
  };
  try {
    const source = await open(directory);
    const target = await open(next);
    await refuseOtherDatabases(source);
    return await withClient(source, (reading) => withClient(target, (writing) => copyTables(reading, writing, options.log)));
  } finally {
    for (const { cluster, running } of opened) await shutDown(cluster, running);
  }
}

async function refuseOtherDatabases(connection: Connection): Promise<void> {
  const { rows } = await withClient(connection, (client) =>
    client.query<{ datname: string }>("select datname from pg_database where not datistemplate and datname not in ('postgres', $1)", [
      connection.database,
    ]),
  );
  if (rows.length > 0)
    throw new Refusal(
      `the database server also contains ${rows.map(({ datname }) => datname).join(", ")}, which would not be copied: move them away first`,
    );
}

/** Removes a partial upgrade with all its files, and ends a PostgreSQL that a killed upgrade left running. */
async function clear(next: string, clock: Clock): Promise<void> {
  await killPostgresOn(next, clock);
  await removeSocketDirectory(next);
  for (const suffix of ["", ".live", ".log", ".log.1", ".lib"]) await rm(`${next}${suffix}`, { recursive: true, force: true });
}
