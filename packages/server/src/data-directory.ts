import { access, constants, mkdir, mkdtemp, readdir, rmdir, stat, statfs } from "node:fs/promises";
import path from "node:path";
import { type Activity, type Clock, idleActivity } from "@roamfleet/clock";
import type { Logger } from "pino";
import packageJson from "../package.json" with { type: "json" };
import type { Settings } from "./config.ts";
import { isForeign, refuseUnfinished } from "./engines/db/backup/index.ts";
import { type Embedded, findBinaries, isControlFileWhole, Refusal, startEmbedded } from "./engines/db/embedded/index.ts";
import {
  connect,
  type DbAddress,
  type DbEngine,
  migrate,
  MIGRATIONS_DIRECTORY,
  migrationsIn,
  oneAhead,
  readSchemaRecord,
  writeSchemaRecord,
} from "./engines/db/index.ts";
import { errorCode } from "./kernel/files.ts";

const MIB = 1024 ** 2;
/** Free space needed to create a database. A new database takes 50 MiB, and its write-ahead log grows until the first checkpoint. */
const NEW_DATABASE_BYTES = 128 * MIB;
/** Free space needed to start an existing database: PostgreSQL writes its lock file, and a crash recovery writes changes. */
const STARTED_DATABASE_BYTES = 2 * MIB;

/** Why a server cannot start on a data directory, and how to fix it. */
interface Obstacle {
  seen: string;
  hint: string;
}

/** Returns the first problem that prevents a server from starting on this directory; undefined if there is none. Changes no files. */
export async function findObstacle(data_directory: string, { is_embedded }: { is_embedded: boolean }): Promise<Obstacle | undefined> {
  const directory = path.resolve(data_directory);
  const { place, is_directory } = await nearest(directory);
  if (!is_directory) return { seen: `${place} is not a directory`, hint: "choose another directory with --data" };
  const is_new = place !== directory;
  const denied = await writeDenied(place);
  if (denied !== undefined) return deniedObstacle(directory, place, denied);
  if (is_new && place !== path.dirname(directory))
    return { seen: `${path.dirname(directory)} does not exist`, hint: `create it (mkdir -p ${path.dirname(directory)}) or correct --data` };
  const { mode } = await stat(place);
  if (!is_new && (mode & 0o002) !== 0)
    return {
      seen: `${directory} can be written by every user of this machine`,
      hint: `chmod o-w ${directory}, and check its contents for changes by other users`,
    };
  if (!is_new && (await isForeign(directory)))
    return { seen: `${directory} contains files that do not belong to Roamfleet`, hint: "choose a new or empty directory with --data" };
  return is_embedded ? await databaseObstacle(directory, place) : undefined;
}

function deniedObstacle(directory: string, place: string, code: string): Obstacle {
  const seen =
    place === directory
      ? `${directory} cannot be written (${code})`
      : `${directory} does not exist and cannot be created in ${place} (${code})`;
  if (code === "ENOSPC" || code === "EDQUOT") return { seen, hint: "free disk space, or choose another directory with --data" };
  if (code === "EROFS") return { seen, hint: "mount its file system writable, or choose another directory with --data" };
  return {
    seen,
    hint: "the directory must belong to the user who starts the server: chown it, start the server as its owner, or choose another directory with --data",
  };
}

/** Returns the first problem that prevents the embedded database from starting; undefined if there is none. */
async function databaseObstacle(directory: string, place: string): Promise<Obstacle | undefined> {
  const database = path.join(directory, "postgres");
  const found = await stat(database).catch(() => undefined);
  const is_new = found === undefined || (await readdir(database).catch(() => ["unreadable"])).length === 0;
  const { bavail, bsize } = await statfs(place);
  const free = bavail * bsize;
  const needed = is_new ? NEW_DATABASE_BYTES : STARTED_DATABASE_BYTES;
  if (free < needed)
    return {
      seen: `the disk of ${directory} has ${Math.floor(free / MIB)} MiB free, and ${is_new ? "a new database" : "the database"} needs ${needed / MIB} MiB to start`,
      hint: "free disk space, or choose another directory with --data",
    };
  if (is_new) return undefined;
  if ((found.mode & 0o027) !== 0)
    return { seen: `${database} is open to other users (mode ${(found.mode & 0o777).toString(8)})`, hint: `chmod 700 ${database}` };
  const can_start = await findBinaries(database).then(
    () => true,
    // Returns no obstacle if no installed PostgreSQL fits: the server reports that later, when it chooses the binaries.
    () => false,
  );
  if (can_start && !(await isControlFileWhole(database)))
    return {
      seen: `the database in ${database} is damaged (global/pg_control)`,
      hint: "restore a backup into a new directory with roamfleet restore",
    };
  return await versionObstacle(directory);
}

async function versionObstacle(directory: string): Promise<Obstacle | undefined> {
  const record = await readSchemaRecord(directory);
  if (record === undefined) return undefined;
  const known = await migrationsIn(MIGRATIONS_DIRECTORY);
  const unknown = record.migrations.filter((name) => !known.has(name));
  if (unknown.length === 0 || oneAhead(record.migrations, known) !== undefined) return undefined;
  return {
    seen: `the database in ${directory} belongs to a newer version of Roamfleet (${record.version}): it has the migrations ${unknown.join(", ")}`,
    hint: "start the newer version, or restore a backup made before the upgrade",
  };
}

/** Returns the directory if it exists, else its nearest existing parent. */
export async function nearest(directory: string): Promise<{ place: string; is_directory: boolean }> {
  const found = await stat(directory).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return undefined;
    // After any other error, such as EACCES, the path may exist, so the server must not create it.
    return { isDirectory: () => true };
  });
  const parent = path.dirname(directory);
  if (found !== undefined || parent === directory) return { place: directory, is_directory: found?.isDirectory() ?? false };
  return await nearest(parent);
}

/**
 * Returns the error code if nothing can be created in the directory, else undefined. Creates and removes a test directory, because
 * access(2) does not consider read-only mounts of containers, quotas and the like.
 */
export async function writeDenied(directory: string): Promise<string | undefined> {
  try {
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    await rmdir(await mkdtemp(path.join(directory, ".roamfleet-doctor-")));
    return undefined;
  } catch (error) {
    return errorCode(error) ?? String(error);
  }
}

interface OpenOptions {
  settings: Settings;
  clock: Clock;
  log: Logger;
  activity?: Activity | undefined;
  database?: DbAddress | undefined;
  check_rows?: boolean | undefined;
}

/**
 * Creates the data directory, starts the embedded database unless another is configured, migrates the database and connects to it. A
 * database passed as `database` is not migrated. Appends the functions that undo this to `started`. Throws a Refusal if the directory
 * cannot be used.
 */
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
