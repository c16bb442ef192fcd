import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionPool } from "./connection-pool.ts";
import { isConnectionLost } from "./index.ts";
import { createTestDatabase, silentLog } from "./testing/index.ts";

const TIMEOUT = { timeout: 60_000 };

test("closes a connection if a pipelined statement gets no response in time", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  const limits = { max: 1, max_per_org: 1, answer_timeout_ms: 1_000 };
  const pool = new ConnectionPool({ config: database.connection, ...limits, prepare: async () => {}, log: silentLog });
  const connection = await pool.borrow(undefined);
  const [first, second] = await Promise.allSettled([
    connection.ask([{ text: "select 1", name: undefined, values: [] }]),
    connection.ask([{ text: "select pg_sleep(600)", name: undefined, values: [] }]),
  ]);
  assert.equal(first.status, "fulfilled");
  assert.ok(second.status === "rejected" && isConnectionLost(second.reason));
  pool.end();
});
