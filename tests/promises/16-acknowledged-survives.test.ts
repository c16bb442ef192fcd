import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { seededRandom } from "@roamfleet/clock";
import type { Ledger } from "../crash/ledger.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import type { ServerProcess } from "../processes/server-process.ts";
import { databaseOf, killPostgres, startUnderFire, Writers } from "./writes-under-fire.ts";

const WRITES = promiseSize({ test: 3_000, full: 100_000 });
const KILLS = promiseSize({ test: 5, full: 60 });
const PARALLEL = 64;
const REPLAYS = 500;
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 3_600_000 }) };

test(`none of ${WRITES} acknowledged writes is lost or stored twice despite kill -9 of server and PostgreSQL`, LIMIT, async (t) => {
  await using fire = await startUnderFire();
  const { server, ledger } = fire;
  const writers = new Writers(ledger);
  await writers.prepare();
  const random = seededRandom(16);
  const killed = { server: 0, postgres: 0, both: 0 };
  const writing = writers.write(WRITES, PARALLEL);
  for (let kill = 0; kill < KILLS; kill += 1) {
    // Kills are spread over the whole run, at random moments.
    const at = Math.floor(((kill + random()) / KILLS) * WRITES * 0.95);
    await Promise.race([until("the writers to come this far", () => writers.done >= at), writing]);
    const what = (["server", "postgres", "both"] as const)[kill % 3]!;
    if (what !== "server" && killPostgres(server)) killed[what] += 1;
    if (what === "postgres") continue;
    await server.program.kill();
    if (what === "server") killed.server += 1;
    await server.restart();
  }
  await writing;
  const rows = await countRows(server, ledger);
  const every = Math.ceil(ledger.acknowledged.length / REPLAYS);
  const replays = await ledger.checkReplays(ledger.acknowledged.filter((_, n) => n % every === 0));
  assert.ok(killed.server > 0 && killed.postgres > 0 && killed.both > 0, JSON.stringify(killed));
  assert.ok(ledger.unanswered > 0, "no kill cut anybody off");
  provePromise(
    t,
    16,
    `${WRITES} writes by ${PARALLEL} clients, ${killed.server} kill -9 of the server, ${killed.postgres} of PostgreSQL, ${killed.both} of both, ` +
      `${ledger.unanswered} calls cut off: ${rows} rows, 0 acknowledged lost, 0 twice, ${replays} replays byte-equal`,
  );
});

/** Checks that every acknowledged id is a row, and that there is no unacknowledged row. */
async function countRows(server: ServerProcess, ledger: Ledger): Promise<number> {
  const client = new pg.Client(await databaseOf(server));
  await client.connect();
  let rows = 0;
  try {
    for (const [path, table] of [
      ["/api/sites", "site"],
      ["/api/deployments", "deployment"],
      ["/api/configs", "config_entry"],
    ] as const) {
      const found = new Set((await client.query<{ id: string }>(`select id from ${table}`)).rows.map(({ id }) => id));
      const acknowledged = new Set(ledger.ids(path));
      assert.deepEqual([...acknowledged].filter((id) => !found.has(id)).slice(0, 10), [], `acknowledged by POST ${path} and lost`);
      assert.deepEqual([...found].filter((id) => !acknowledged.has(id)).slice(0, 10), [], `in ${table} and never acknowledged: done twice`);
      assert.equal(acknowledged.size, ledger.ids(path).length, `POST ${path} answered one id for two keys`);
      rows += found.size;
    }
  } finally {
    await client.end();
  }
  return rows;
}
