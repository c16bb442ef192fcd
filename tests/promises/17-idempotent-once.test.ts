import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { Ledger } from "../crash/ledger.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";

const AT_ONCE = 200;
const ROUNDS = promiseSize({ test: 3, full: 30 });
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 1_800_000 }) };

test(`${AT_ONCE} identical concurrent POSTs create one row and get equal responses despite kill -9`, LIMIT, (t) => once(t, 1));

test(`${AT_ONCE} identical concurrent POSTs to two nodes create one row despite kill -9 of one`, LIMIT, (t) => once(t, 2));

async function once(t: TestContext, nodes: number): Promise<void> {
  await using database = await createTestDatabase();
  await using server = await ServerProcess.start({
    nodes,
    env: { DATABASE_URL: databaseUrl(database.connection) },
    args: ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
  });
  const { token } = await server.org("Once");
  const ledger = new Ledger(() => server.url, token);
  let unanswered = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const key = randomUUID();
    const name = `Site ${round}`;
    let sent = 0;
    const crowd = Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        const answer = await ledger.send("POST", "/api/sites", { name }, key);
        sent += 1;
        return answer;
      }),
    );
    // Kill before, during or after the first responses, depending on the round.
    await until("the crowd to be under way", () => sent >= [0, 1, 20][round % 3]!);
    await server.program.kill();
    await server.restart();
    const answers = await crowd;
    const [first] = answers;
    assert.deepEqual([...new Set(answers.map(({ status, text }) => `${status} ${text}`))], [`201 ${first?.text}`]);
    const { text } = await ledger.send("GET", "/api/sites?limit=1000");
    const rows = (JSON.parse(text) as { items: { id: string; name: string }[] }).items.filter((site) => site.name === name);
    assert.equal(rows.length, 1);
    assert.ok(first?.text.includes(rows[0]!.id));
    unanswered = ledger.unanswered;
  }
  // With two nodes, the node that is not killed may have answered all requests.
  assert.ok(unanswered > 0 || nodes > 1, "no kill cut anybody off");
  provePromise(
    t,
    17,
    `${AT_ONCE} identical POSTs at once on ${nodes === 1 ? "one node, which was" : `${nodes} nodes, one of them`} killed ${ROUNDS} times amid them (${unanswered} cut off and repeated): 1 row each, all replays byte-equal`,
  );
}
