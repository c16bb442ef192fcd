import { mkdir } from "node:fs/promises";
import path from "node:path";
import { type Activity, type Clock, idleActivity } from "@roamfleet/clock";
import type { Logger } from "pino";
import packageJson from "../package.json" with { type: "json" };
import type { Settings } from "./config.ts";
import { findObstacle } from "./data-directory.ts";
import { refuseUnfinished } from "./engines/db/backup/index.ts";
import { type Embedded, Refusal, startEmbedded } from "./engines/db/embedded/index.ts";
import { connect, type DbAddress, type DbEngine, migrate, MIGRATIONS_DIRECTORY, writeSchemaRecord } from "./engines/db/index.ts";

interface OpenOptions {
  settings: Settings;
  clock: Clock;
  log: Logger;
  activity?: Activity | undefined;
  database?: DbAddress | undefined;
  check_rows?: boolean | undefined;
}

/** Opens the data directory and the migrated database, and starts the embedded one. Throws a Refusal if the directory cannot be used. */
export async function openDatabase(
  { settings, clock, log, activity = idleActivity, database, check_rows }: OpenOptions,
  started: (() => Promise<unknown>)[],
): Promise<{ db: DbEngine; embedded: Embedded | undefined }> {
  const { data_directory, limits } = settings;
  const given = database ?? settings.database_url;
  const obstacle = await findObstacle(data_directory, { is_embedded: given === undefined });
  if (obstacle !== undefined) throw new Refusal(`${obstacle.seen}: ${obstacle.hint}`);
  await mkdir(data_directory, { recursive: true, mode: 0o711 });
  await refuseUnfinished(data_directory);
  let embedded: Embedded | undefined;
  if (given === undefined) {
    const running = (embedded = await startEmbedded({ directory: path.join(data_directory, "postgres"), clock, log }));
    started.push(() => running.stop());
  }
  const connection = given ?? embedded!.connection;
  const on_schema = async (migrations: string[]): Promise<void> => {
    if (embedded !== undefined) await writeSchemaRecord(data_directory, { version: packageJson.version, migrations });
  };
  if (database === undefined) await migrate(connection, { directory: MIGRATIONS_DIRECTORY, log, on_schema });
  const db = await connect({ connection, pool_size: limits.database_connections, clock, log, check_rows, activity });
  started.push(() => db.close());
  return { db, embedded };
}
