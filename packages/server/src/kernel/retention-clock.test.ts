import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { createTestDatabase } from "../engines/db/testing/index.ts";
import { createLog } from "./log.ts";
import { RetentionClock } from "./retention-clock.ts";

const TIMEOUT = { timeout: 120_000 };
const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;
const AT = "2030-01-01T00:00:00Z";

async function start() {
  const database = await createTestDatabase();
  const db = await database.connect();
  const logged: string[] = [];
  const log = { ...createLog({ level: "silent" }), error: (_fields: unknown, message: string) => void logged.push(message) };
  return {
    db,
    logged,
    /** Starts a process on a machine whose clock shows `at`. `stop` saves its history. */
    open: async (at: string | number, has_remote_database = false) => {
      const clock = new SimulatedClock({ at: new Date(at).toISOString() });
      const retention = await RetentionClock.open({ db, clock, log: log as never, has_remote_database });
      return { clock, retention, stop: () => retention.start().stop() };
    },
    [Symbol.asyncDispose]: () => database.drop(),
  };
}

test("a start with a clock that is years off keeps the time of the run before, and logs an error", TIMEOUT, async () => {
  await using it = await start();
  await (await it.open(AT)).stop();
  const ahead = await it.open(Date.parse(AT) + 10 * YEAR_MS);
  assert.equal(ahead.retention.now().toISOString(), new Date(AT).toISOString());
  assert.equal(ahead.retention.behind_ms, 10 * YEAR_MS);
  assert.deepEqual(it.logged, [
    "the clock is ahead of the last known time: nothing is deleted because of the new time until it has held for a day",
  ]);
  await ahead.clock.advance({ days: 1 });
  assert.equal(ahead.retention.behind_ms, 0);
  await ahead.stop();
  const behind = await it.open(Date.parse(AT) - 10 * YEAR_MS);
  assert.equal(behind.retention.now().getTime(), Date.parse(AT) - 10 * YEAR_MS);
  assert.equal(it.logged.length, 2);
});

test("a day of running time is counted across restarts, so a server that never runs for a day deletes by age too", TIMEOUT, async () => {
  await using it = await start();
  await (await it.open(AT)).stop();
  let now = Date.parse(AT) + 30 * DAY_MS;
  for (let run = 0; run < 3; run += 1) {
    const running = await it.open(now);
    assert.ok(running.retention.behind_ms >= 29 * DAY_MS, "not yet");
    await running.clock.advance({ hours: 8 });
    await running.stop();
    now = running.clock.now().getTime();
  }
  assert.equal((await it.open(now)).retention.behind_ms, 0);
});

test("holds back a jump while the server runs, and forgets one that is reverted", TIMEOUT, async () => {
  await using it = await start();
  const { clock, retention } = await it.open(AT);
  clock.jump(15 * DAY_MS);
  assert.equal(retention.now().toISOString(), new Date(AT).toISOString());
  await clock.advance({ hours: 1 });
  clock.jump(-15 * DAY_MS);
  assert.equal(retention.now().getTime(), clock.now().getTime());
  assert.equal(retention.behind_ms, 0);
});

test("a new database trusts the clock immediately", TIMEOUT, async () => {
  await using it = await start();
  assert.equal((await it.open(AT)).retention.behind_ms, 0);
});

test("with a database on another machine, the earlier of the two clocks decides", TIMEOUT, async () => {
  await using it = await start();
  const ahead = await it.open(Date.now() + 10 * YEAR_MS, true);
  await ahead.clock.advance({ days: 3 });
  assert.ok(ahead.retention.now().getTime() < Date.now() + 4 * DAY_MS);
  assert.deepEqual(it.logged, [
    "the clocks of server and database differ by over an hour: the earlier one decides what is old enough to delete",
  ]);
  await ahead.stop();
});
