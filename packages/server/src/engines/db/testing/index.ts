import { after } from "node:test";
import { type Activity, systemClock } from "@roamfleet/clock";
import { connect, type DbAddress, type DbEngine } from "../index.ts";
import { command, dayOf, silentLog, startTestServer, TEMPLATE, TEST_SERVER_VARIABLE, type TestServer } from "./test-server.ts";

export { copyDirectory, silentLog } from "./test-server.ts";

/** A database that one test file or test uses alone. */
export interface TestDatabase extends AsyncDisposable {
  readonly connection: Exclude<DbAddress, string>;
  /** Opens a pool that checks every row against its declaration. Disposing the database closes the pool. */
  connect(options?: { pool_size?: number; activity?: Activity }): Promise<DbEngine>;
  drop(): Promise<void>;
}

const given = process.env[TEST_SERVER_VARIABLE];
/** The PostgreSQL server of this process, started only if the test file runs alone. Otherwise the test run provides a server. */
let own: ReturnType<typeof startTestServer> | undefined;
let databases = 0;
let open_databases = 0;
let finished = false;

// This hook runs before the hooks of the test file, which drop databases. When the last database is dropped, the server stops.
if (given === undefined) {
  after(async () => {
    finished = true;
    await stopUnused();
  });
}

async function stopUnused(): Promise<void> {
  if (!finished || open_databases > 0 || own === undefined) return;
  await (await own).stop();
}

async function server(): Promise<TestServer> {
  if (given !== undefined) return JSON.parse(given) as TestServer;
  own ??= startTestServer();
  return (await own).server;
}

/** Returns the database directory of a stopped PostgreSQL as a template, and a directory for its copies, in memory if possible. */
export async function directoryTemplate(): Promise<{ template: string; place: string }> {
  const { directory, directory_template } = await server();
  return { template: directory_template, place: directory };
}

/**
 * Creates a database, migrated unless `empty`. Drop it, or use `await using`. With `plane_at`, it already has the partitions that a server
 * creates when it starts on that day, if a template for that day exists.
 */
export async function createTestDatabase({ empty = false, plane_at }: { empty?: boolean; plane_at?: Date } = {}): Promise<TestDatabase> {
  const at = await server();
  databases += 1;
  open_databases += 1;
  const database = `test_${process.pid}_${databases}`;
  const template = empty ? "template0" : ((plane_at && at.plane_templates[dayOf(plane_at)]) ?? TEMPLATE);
  // This takes 25 ms. The default strategy takes 190 ms, because it writes every page to the write-ahead log.
  await command(at, `create database ${database} template ${template} strategy file_copy`);
  const { host, port, user } = at;
  const connection = { host, port, user, database };
  const engines: DbEngine[] = [];
  let dropped: Promise<void> | undefined;
  const drop = async (): Promise<void> => {
    await Promise.all(engines.map((engine) => engine.close()));
    await command(at, `drop database ${database} with (force)`);
    open_databases -= 1;
    await stopUnused();
  };
  return {
    connection,
    async connect({ pool_size, activity } = {}) {
      const engine = await connect({ connection, pool_size, activity, clock: systemClock, log: silentLog, check_rows: true });
      engines.push(engine);
      return engine;
    },
    drop: () => (dropped ??= drop()),
    [Symbol.asyncDispose]: () => (dropped ??= drop()),
  };
}
