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

test("parses the rows of a prepared statement in every run, on every connection of the pool", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  const limits = { max: 2, max_per_org: 2, answer_timeout_ms: 30_000 };
  const pool = new ConnectionPool({ config: database.connection, ...limits, prepare: async () => {}, log: silentLog });
  const [first, second] = [await pool.borrow(undefined), await pool.borrow(undefined)];
  const select = { name: "numbers", text: "select n, n::text as t from generate_series(1, $1::int) n", values: [2] };
  const two = [
    { n: 1, t: "1" },
    { n: 2, t: "2" },
  ];
  for (const connection of [first, first, second, second, first]) assert.deepEqual((await connection.ask([select])).rows, two);
  assert.deepEqual((await first.ask([{ ...select, values: [0] }])).rows, []);
  const create = { name: undefined, text: "create table word (id text primary key)", values: [] };
  const insert = (id: string) => ({ name: "insert", text: "insert into word values ($1)", values: [id] });
  await first.ask([create]);
  for (const [i, connection] of [first, first, second, second].entries())
    assert.deepEqual(((result) => [result.rowCount, result.rows])(await connection.ask([insert(`w${i}`)])), [1, []]);
  await assert.rejects(second.ask([insert("w0")]), /duplicate key/);
  assert.deepEqual((await second.ask([insert("w9"), select])).rows, two);
  // A failed first run leaves the columns unknown.
  const divide = (by: number) => ({ name: "divide", text: "select 1 / $1::int as q", values: [by] });
  await assert.rejects(first.ask([divide(0)]), /division by zero/);
  assert.deepEqual((await first.ask([divide(1)])).rows, [{ q: 1 }]);
  assert.deepEqual((await second.ask([divide(1)])).rows, [{ q: 1 }]);
  // PostgreSQL refuses a prepared statement whose columns have changed, so the stored columns are never those of another result.
  const all = { name: "all", text: "select * from word where id = $1", values: ["w0"] };
  assert.deepEqual((await first.ask([all])).rows, [{ id: "w0" }]);
  await second.ask([{ ...create, text: "alter table word add column added int" }]);
  await assert.rejects(first.ask([all]), /cached plan must not change result type/);
  assert.deepEqual((await second.ask([all])).rows, [{ id: "w0", added: null }]);
  for (const connection of [first, second]) pool.release(connection, undefined);
  pool.end();
});
