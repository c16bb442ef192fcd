import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@roamfleet/clock";
import pg from "pg";
import type { EngineLog } from "../../log.ts";
import { startEmbedded } from "../embedded/index.ts";
import { migrate, MIGRATIONS_DIRECTORY } from "../migrate.ts";

/** Variable with the address of a test run's PostgreSQL, as JSON. */
export const TEST_SERVER_VARIABLE = "ROAMFLEET_TEST_POSTGRES";
/** Template of the databases, migrated once per run. */
export const TEMPLATE = "roamfleet_template";

export interface TestServer {
  host: string;
  port: number;
  user: string;
}

export const silentLog: EngineLog = { info() {}, warn() {}, error() {} };

/** Starts a PostgreSQL without durability, with a migrated template database. */
export async function startTestServer(): Promise<{ server: TestServer; stop: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-test-postgres-"));
  const data = join(directory, "postgres");
  const guard = startGuard(directory, data);
  try {
    const embedded = await startEmbedded({
      directory: data,
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
      },
    });
    const stop = async (): Promise<void> => {
      await embedded.stop();
      await rm(directory, { recursive: true, force: true });
      guard.end();
    };
    const { host, port, user } = embedded.connection;
    try {
      const server = { host, port, user };
      await command(server, `create database ${TEMPLATE}`);
      await migrate({ ...server, database: TEMPLATE }, { directory: MIGRATIONS_DIRECTORY, log: silentLog });
      return { server, stop };
    } catch (error) {
      await stop();
      throw error;
    }
  } catch (error) {
    guard.end();
    throw error;
  }
}

/**
 * PostgreSQL outlives a killed parent by design. This child process stops it and removes its files when its standard input closes, which
 * also happens when the test run is killed. It runs in a separate session, so that Ctrl-C does not reach it.
 */
function startGuard(directory: string, data: string): { end(): void } {
  const script =
    'cat > /dev/null; pid=$(head -n 1 "$2/postmaster.pid" 2> /dev/null) && kill -INT "$pid"; while [ -n "$pid" ] && kill -0 "$pid" 2> /dev/null; do sleep 0.2; done; rm -rf "$1"';
  const child = spawn("sh", ["-c", script, "sh", directory, data], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
  child.unref();
  if (child.stdin instanceof Socket) child.stdin.unref();
  return { end: () => void child.stdin.end() };
}

/** Runs one command, by default on the server's maintenance database. */
export async function command(server: TestServer, statement: string, database = "postgres"): Promise<void> {
  const client = new pg.Client({ ...server, database });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
