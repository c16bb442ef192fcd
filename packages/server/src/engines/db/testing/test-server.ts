import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm, statfs } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@roamfleet/clock";
import pg from "pg";
import type { EngineLog } from "../../log.ts";
import { type Embedded, startEmbedded } from "../embedded/index.ts";
import { migrate, MIGRATIONS_DIRECTORY } from "../migrate.ts";

/** Variable with the address of a test run's PostgreSQL, as JSON. */
export const TEST_SERVER_VARIABLE = "ROAMFLEET_TEST_POSTGRES";
/** Name of the template database: migrated, but without the partitions that a server creates when it starts. */
export const TEMPLATE = "migrated";

interface ServerAddress {
  host: string;
  port: number;
  user: string;
}

export interface TestServer extends ServerAddress {
  /** Directory of the test server. The end of the test run removes it with all its contents. */
  directory: string;
  /** Database directory of a server that stopped today, with today's partitions. Servers in tests start with a copy. */
  directory_template: string;
  /** By day: the template database with the partitions that a server creates when it starts on that day. Saves 0.1 s per server. */
  plane_templates: Partial<Record<string, string>>;
}

/** Day on which most simulated clocks start. */
const SIMULATED_DAY = "2030-01-01";
const MEMORY_DISK = "/dev/shm";
const MEMORY_BYTES_MIN = 4 * 1024 ** 3;

export const silentLog: EngineLog = { info() {}, warn() {}, error() {} };

/** Starts a PostgreSQL without durability, with a migrated template database and a template of the whole directory. */
export async function startTestServer(): Promise<{ server: TestServer; stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(await place(), "roamfleet-test-postgres-"));
  const data = join(directory, "postgres");
  const directory_template = join(directory, "template");
  const guard = startGuard(directory, data);
  let embedded: Embedded | undefined;
  const stop = async (): Promise<void> => {
    await embedded?.stop();
    await rm(directory, { recursive: true, force: true });
    guard.end();
  };
  try {
    const today = dayOf(systemClock.now());
    const migrations = { directory: MIGRATIONS_DIRECTORY, log: silentLog };
    embedded = await startWithoutDurability(data);
    const { database: of_today, ...address } = embedded.connection;
    await migrate(embedded.connection, migrations);
    await createPartitions(address, of_today, today);
    await embedded.stop();
    copyDirectory(data, directory_template);
    embedded = await startWithoutDurability(data);
    // Migrates this database separately, because a copy of the first one would contain that database's partitions.
    await command(address, `create database ${TEMPLATE}`);
    await migrate({ ...address, database: TEMPLATE }, migrations);
    const of_simulated = `${TEMPLATE}_simulated`;
    await command(address, `create database ${of_simulated} template ${TEMPLATE} strategy file_copy`);
    await createPartitions(address, of_simulated, SIMULATED_DAY);
    const plane_templates = { [SIMULATED_DAY]: of_simulated, [today]: of_today };
    return { server: { ...address, directory, directory_template, plane_templates }, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Returns a memory file system with enough space, else the temporary directory. A test run creates hundreds of databases of 300 files. */
async function place(): Promise<string> {
  const { bavail, bsize } = await statfs(MEMORY_DISK).catch(() => ({ bavail: 0, bsize: 0 }));
  return bavail * bsize >= MEMORY_BYTES_MIN ? MEMORY_DISK : tmpdir();
}

/** Creates the partitions that a plane creates when it starts on a day. */
async function createPartitions(server: ServerAddress, database: string, day: string): Promise<void> {
  const partitions = `do $$ declare parent text; day date; begin
    for parent in select relname from pg_class where relkind = 'p' and relnamespace = 'public'::regnamespace loop
      for day in select generate_series(date '${day}', date '${day}' + 7, '1 day') loop
        execute format('create table %1$s_%2$s (like %1$s including all)', parent, to_char(day, 'YYYYMMDD'));
        execute format('alter table %1$s attach partition %1$s_%2$s for values from (%3$L) to (%4$L)',
          parent, to_char(day, 'YYYYMMDD'), day || ' 00:00:00+00', day + 1 || ' 00:00:00+00');
      end loop;
    end loop; end $$`;
  await command(server, partitions, database);
}

/** Returns the UTC day, such as `2030-01-01`. */
export const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

const startWithoutDurability = (directory: string): Promise<Embedded> =>
  startEmbedded({
    directory,
    log: silentLog,
    clock: systemClock,
    parameters: {
      fsync: "off",
      synchronous_commit: "off",
      full_page_writes: "off",
      max_connections: "300",
      autovacuum: "off",
      wal_level: "minimal",
      max_wal_senders: "0",
      max_wal_size: "256MB",
    },
  });

/** Copies a directory tree with modes and owners. `to` must not exist. */
export const copyDirectory = (from: string, to: string): void => void execFileSync("cp", ["-a", "--reflink=auto", from, to]);

/**
 * PostgreSQL outlives a killed parent by design. This child process stops it and removes its files when its standard input closes, which
 * also happens when the test run is killed. It runs in a separate session, so that Ctrl-C does not reach it.
 */
function startGuard(directory: string, data: string): { end(): void } {
  const script =
    'cat > /dev/null; pid=$(head -n 1 "$2/postmaster.pid" 2> /dev/null) && kill -INT "$pid"; while [ -n "$pid" ] && kill -0 "$pid" 2> /dev/null; do sleep 0.2; done; rm -rf "$1"';
  // Unsets RF_TEST_RUN, so that the guard of the test run does not end this process.
  const env = { ...process.env, RF_TEST_RUN: "" };
  const child = spawn("sh", ["-c", script, "sh", directory, data], { env, detached: true, stdio: ["pipe", "ignore", "ignore"] });
  child.unref();
  if (child.stdin instanceof Socket) child.stdin.unref();
  return { end: () => void child.stdin.end() };
}

/** Runs one command, by default on the server's maintenance database. */
export async function command(server: ServerAddress, statement: string, database = "postgres"): Promise<void> {
  const client = new pg.Client({ ...server, database });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
