import { access, rm } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { chooseBinaries, readMajor } from "./binaries.ts";
import { type Cluster, type ClusterOptions, openCluster, placeDirectory } from "./cluster.ts";
import { type Connection, withClient } from "./connect.ts";
import { copyTables } from "./copy-tables.ts";
import { bringUp, type Running } from "./launch.ts";
import { lockDirectory } from "./lock.ts";
import { Refusal } from "./refusal.ts";
import { killPostgresOn, shutDown } from "./shutdown.ts";
import { removeSocketDirectory } from "./socket-directory.ts";
import { connectionTo, ensureDatabase } from "./supervisor.ts";
import { finishSwitch, switchDirectories } from "./switch.ts";
import { syncTree } from "./sync.ts";

export interface UpgradeOptions extends ClusterOptions {
  /** The database's directory. No server may be running on it. */
  directory: string;
  /** Migrates the database of the connection to the current schema. Called for the old one, then for the new one. */
  migrate: (connection: Connection) => Promise<unknown>;
}

export interface UpgradeResult {
  from: number;
  to: number;
  /** Where the old database is kept; undefined if there was nothing to upgrade. */
  kept: string | undefined;
  tables: number;
  rows: number;
}

/**
 * Moves the database to the newest installed PostgreSQL: creates a new database beside the old one, copies and compares every table, then
 * switches by rename. The old one stays as `<directory>.<major>.old`. After a failure or kill, the old database is in place as before, with
 * its schema migrated.
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
    if (await exists(kept)) throw new Refusal(`${kept} exists: move the database kept by an earlier upgrade away first`);

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

/** Runs both databases while copying, and stops both at the end in any case. */
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

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );
