import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";
import { choosePoints, Crasher } from "./crasher.ts";
import { Ledger } from "./ledger.ts";
import { Scenario } from "./scenario.ts";

const POINTS = 9;
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 3_600_000 }) };
const ROUNDS_MAX = promiseSize({ test: 8, full: 1_000 });
/** Tables by the path that makes their rows. */
const TABLES = {
  "/api/sites": "site",
  "/api/fleets": "fleet",
  "/api/releases": "release",
  "/api/deployments": "deployment",
  "/api/configs/deployments": "deployment",
  "/api/enrollment-keys": "enrollment_key",
};

test(
  "a server killed in its transactions, one after the other, loses nothing that it acknowledged and ends every deployment",
  LIMIT,
  async (t) => {
    await using database = await createTestDatabase();
    await using server = await ServerProcess.start({
      env: { DATABASE_URL: databaseUrl(database.connection) },
      args: ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
    });
    const { token } = await server.org("Crashes");
    await server.program.stop();
    using crasher = new Crasher((env) => {
      server.env = env;
      return (server.program = server.run(new URL(server.url).host));
    });

    crasher.trace();
    const ledger = new Ledger(
      () => server.url,
      token,
      () => crasher.check(),
    );
    const scenario: Scenario = new Scenario(ledger, () => robot);
    const { key } = await scenario.prepare();
    await using robot = new AgentProcess({ url: server.url, key, name: "cart-1" });
    await scenario.meetRobot();
    scenario.restart_robot = async () => {
      await robot.program.kill();
      robot.restart();
    };
    await scenario.deskRound();
    await scenario.robotRound();
    await server.program.kill();
    const traced = crasher.traced();
    const points = choosePoints(traced, POINTS);

    crasher.crashAt(points);
    let rounds = 0;
    for (; !crasher.done && rounds < ROUNDS_MAX; rounds += 1) {
      const { armed } = crasher;
      await scenario.deskRound();
      if (!crasher.done) await scenario.robotRound();
      crasher.check();
      if (crasher.armed === armed) await crasher.skip();
    }
    await scenario.runs();
    const replays = await ledger.checkReplays();
    const resources = await ledger.checkResources();
    await checkRows(database.connection, ledger);
    await crasher.rest();
    t.diagnostic(`unreached: ${crasher.unreached.join(" ") || "none"}`);
    assert.ok(crasher.kills.every(({ action, within }) => action === "killed" && (within === "transaction" || within === "statement")));
    assert.ok(crasher.kills.length >= points.length / 2, `${crasher.kills.length} of ${points.length}`);
    await server.restart();
    provePromise(
      t,
      19,
      `server killed at ${crasher.kills.length} of ${traced.length} points in its transactions (${points.length} tried, ${rounds} rounds): ` +
        `${scenario.ended.length} deployments ended, one version ran after each; ${replays} replays byte-equal, ${resources} resources as answered, 0 lost`,
    );
  },
);

/** Every id that was acknowledged, and not deleted since, is a row. */
async function checkRows(connection: pg.ClientConfig, ledger: Ledger): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    for (const [path, table] of Object.entries(TABLES)) {
      const ids = ledger.ids(path);
      const { rows } = await client.query<{ id: string }>(`select id from ${table} where id = any($1)`, [ids]);
      const found = new Set(rows.map(({ id }) => id));
      assert.deepEqual(
        ids.filter((id) => !found.has(id)),
        [],
        `acknowledged by POST ${path} and lost`,
      );
    }
  } finally {
    await client.end();
  }
}
