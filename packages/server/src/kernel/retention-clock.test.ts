import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import fc from "fast-check";
import { createTestDatabase } from "../engines/db/testing/index.ts";
import { createLog } from "./log.ts";
import { type ClockHistory, HOLD_MS, observe, RetentionClock, trustedTime, untrustedMs } from "./retention-clock.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
const AT = Date.parse("2030-01-01T00:00:00Z");
const known = (at = AT): ClockHistory => ({ seen_at: new Date(at), jumps: [] });
const after = (history: ClockHistory, now_ms: number, elapsed_ms = 0): ClockHistory => observe(history, new Date(now_ms), elapsed_ms);

/** Advances the time with a reading of the clock every hour, as a running server does. */
function run(history: ClockHistory, hours: number): ClockHistory {
  let now = history;
  for (let hour = 0; hour < hours; hour += 1) now = after(now, now.seen_at.getTime() + HOUR_MS, HOUR_MS);
  return now;
}

test("retention trusts a steady clock to the millisecond", () => {
  const history = run(known(), 1_000);
  assert.equal(trustedTime(history).getTime(), AT + 1_000 * HOUR_MS);
});

test("retention trusts a clock that is ten years ahead only after a day of running", () => {
  const started = after(known(), AT + 10 * YEAR_MS);
  assert.equal(trustedTime(started).getTime(), AT);
  assert.equal(trustedTime(run(started, 23)).getTime(), AT + 23 * HOUR_MS, "retention uses the earlier time");
  assert.equal(trustedTime(run(started, 24)).getTime(), AT + 10 * YEAR_MS + 24 * HOUR_MS);
});

test("retention uses a clock that is years behind, and trusts its correction after a day", () => {
  const behind = run(after(known(), AT - 10 * YEAR_MS), 100);
  assert.equal(trustedTime(behind).getTime(), AT - 10 * YEAR_MS + 100 * HOUR_MS);
  const back = after(behind, AT + HOUR_MS);
  assert.ok(trustedTime(back).getTime() < AT - 9 * YEAR_MS);
  assert.equal(trustedTime(run(back, 24)).getTime(), AT + 25 * HOUR_MS);
});

test("a forward clock jump that is reverted has no effect on retention", () => {
  const ahead = run(after(run(known(), 5), AT + 5 * HOUR_MS + 15 * 24 * HOUR_MS), 7);
  const back = after(ahead, AT + 12 * HOUR_MS);
  assert.equal(untrustedMs(back), 0);
  assert.equal(trustedTime(back).getTime(), AT + 12 * HOUR_MS);
});

test("a server that was off for a month trusts its clock for retention after a day", () => {
  const month_ms = 30 * 24 * HOUR_MS;
  assert.equal(untrustedMs(run(after(known(), AT + month_ms), 24)), 0);
});

test("retention is at most two days behind on a machine that is off each night", () => {
  let history = known();
  for (let day = 0; day < 100; day += 1) {
    history = run(history, 8);
    history = after(history, history.seen_at.getTime() + 16 * HOUR_MS);
    assert.ok(untrustedMs(history) <= 3 * 16 * HOUR_MS, String(untrustedMs(history) / HOUR_MS));
  }
});

test("a restart loop keeps a bounded clock history, and retention trusts the clock eventually", () => {
  let history = known();
  for (let start = 0; start < 1_000; start += 1) history = after(history, history.seen_at.getTime() + 60_000);
  assert.ok(history.jumps.length <= 32);
  assert.equal(untrustedMs(history), 60_000_000);
  assert.equal(untrustedMs(run(history, 24)), 0);
});

test("retention never uses a time later than any clock reading of the last day of running", () => {
  const step = fc.record({
    jump_ms: fc.integer({ min: -20 * YEAR_MS, max: 20 * YEAR_MS }),
    elapsed_ms: fc.integer({ min: 0, max: 2 * HOLD_MS }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let history = known();
      let monotonic = 0;
      // Offsets of the wall clock from the monotonic clock, with their end times. Offsets within HOLD_MS limit the trusted time.
      const offsets = [{ until: 0, offset: AT }];
      for (const { jump_ms, elapsed_ms } of steps) {
        monotonic += elapsed_ms;
        const before = offsets.at(-1)!;
        before.until = monotonic;
        history = after(history, before.offset + jump_ms + monotonic, elapsed_ms);
        offsets.push({ until: monotonic, offset: before.offset + jump_ms });
        const lowest = Math.min(...offsets.filter(({ until }) => monotonic - until < HOLD_MS).map(({ offset }) => offset));
        const trusted = trustedTime(history).getTime();
        assert.ok(trusted <= history.seen_at.getTime());
        assert.ok(trusted <= lowest + monotonic + 60 * 1_000, `${trusted - lowest - monotonic} ms too late`);
      }
    }),
  );
});

const TIMEOUT = { timeout: 120_000 };
const DAY_MS = 86_400_000;
const START_AT = "2030-01-01T00:00:00Z";

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

test("a start with a clock that is years ahead keeps the previous retention time", TIMEOUT, async () => {
  await using it = await start();
  await (await it.open(START_AT)).stop();
  const ahead = await it.open(Date.parse(START_AT) + 10 * YEAR_MS);
  assert.equal(ahead.retention.now().toISOString(), new Date(START_AT).toISOString());
  assert.equal(ahead.retention.behind_ms, 10 * YEAR_MS);
  assert.deepEqual(it.logged, [
    "the clock is ahead of the last known time: deletions by age use the new time only after it has been stable for a day",
  ]);
  await ahead.clock.advance({ days: 1 });
  assert.equal(ahead.retention.behind_ms, 0);
  await ahead.stop();
  const behind = await it.open(Date.parse(START_AT) - 10 * YEAR_MS);
  assert.equal(behind.retention.now().getTime(), Date.parse(START_AT) - 10 * YEAR_MS);
  assert.equal(it.logged.length, 2);
});

test("a restart does not reset the running time after which retention trusts a changed clock", TIMEOUT, async () => {
  await using it = await start();
  await (await it.open(START_AT)).stop();
  let now = Date.parse(START_AT) + 30 * DAY_MS;
  for (let run = 0; run < 3; run += 1) {
    const running = await it.open(now);
    assert.ok(running.retention.behind_ms >= 29 * DAY_MS, "not yet");
    await running.clock.advance({ hours: 8 });
    await running.stop();
    now = running.clock.now().getTime();
  }
  assert.equal((await it.open(now)).retention.behind_ms, 0);
});

test("retention ignores a forward clock jump at first, and entirely if it is reverted", TIMEOUT, async () => {
  await using it = await start();
  const { clock, retention } = await it.open(START_AT);
  clock.jump(15 * DAY_MS);
  assert.equal(retention.now().toISOString(), new Date(START_AT).toISOString());
  await clock.advance({ hours: 1 });
  clock.jump(-15 * DAY_MS);
  assert.equal(retention.now().getTime(), clock.now().getTime());
  assert.equal(retention.behind_ms, 0);
});

test("retention trusts the clock immediately with a new database", TIMEOUT, async () => {
  await using it = await start();
  assert.equal((await it.open(START_AT)).retention.behind_ms, 0);
});

test("retention uses the earlier of the server's and the remote database's clocks", TIMEOUT, async () => {
  await using it = await start();
  const ahead = await it.open(Date.now() + 10 * YEAR_MS, true);
  await ahead.clock.advance({ days: 3 });
  assert.ok(ahead.retention.now().getTime() < Date.now() + 4 * DAY_MS);
  assert.deepEqual(it.logged, [
    "the clocks of server and database differ by over an hour: the earlier one decides what is old enough to delete",
  ]);
  await ahead.stop();
});
