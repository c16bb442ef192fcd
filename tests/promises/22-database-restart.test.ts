import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { checkTime, promiseSize, provePromise } from "../harness/promise.ts";
import { startUnderFire, Writers } from "./writes-under-fire.ts";

const ROUNDS = promiseSize({ test: 2, full: 10 });
const PARALLEL = 32;
const BETWEEN = 300;
const RECOVERED_MS_MAX = 5_000;
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 1_200_000 }) };

test("the server recovers and loses nothing when PostgreSQL is killed under load", LIMIT, (t) => restarted(t, 1));

test("three nodes recover and lose nothing when their PostgreSQL is killed under load", LIMIT, (t) => restarted(t, 3));

async function restarted(t: TestContext, nodes: number): Promise<void> {
  await using fire = await startUnderFire(nodes);
  const { server, ledger } = fire;
  const writers = new Writers(ledger);
  await writers.prepare();
  const writing = writers.write(BETWEEN * (ROUNDS * 2 + 1), PARALLEL);
  const recoveries: number[] = [];
  for (let round = 0; round < ROUNDS * 2; round += 1) {
    await until("some writes", () => writers.done >= BETWEEN * (round + 0.5));
    const refused = ledger.refusals.length;
    // Alternately a crash, and a restart by an operator (fast shutdown).
    assert.ok(fire.killPostgres(round % 2 === 0 ? "SIGKILL" : "SIGINT"), "PostgreSQL runs");
    const killed_at = performance.now();
    await until("a refusal", () => ledger.refusals.length > refused);
    const { done } = writers;
    await until("a write to succeed again", () => writers.done > done + PARALLEL);
    recoveries.push(Math.round(performance.now() - killed_at));
  }
  await writing;
  assert.ok(server.nodes.every(({ program }) => program.running));
  assert.deepEqual([...new Set(ledger.refusals.map(({ status }) => status))], [503]);
  assert.ok(ledger.refusals.every(({ retry_after }) => Number(retry_after) > 0));
  assert.equal(ledger.cut_off, 0, "a call got no answer at all");
  const replays = await ledger.checkReplays();
  const slowest = Math.max(...recoveries);
  checkTime(t, "the slowest recovery", slowest, RECOVERED_MS_MAX);
  provePromise(
    t,
    22,
    `PostgreSQL of ${nodes === 1 ? "one node" : `${nodes} nodes`} killed ${ROUNDS} times and stopped ${ROUNDS} times under ${PARALLEL} writers: recovered after at most ${slowest} ms, ` +
      `${ledger.refusals.length} refusals, all 503 with Retry-After; ${replays} acknowledged writes replayed byte-equal, 0 lost`,
  );
}
