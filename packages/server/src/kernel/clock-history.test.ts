import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type ClockHistory, HOLD_MS, observe, trustedTime, untrustedMs } from "./clock-history.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
const AT = Date.parse("2030-01-01T00:00:00Z");
const known = (at = AT): ClockHistory => ({ seen_at: new Date(at), jumps: [] });
const after = (history: ClockHistory, now_ms: number, elapsed_ms = 0): ClockHistory => observe(history, new Date(now_ms), elapsed_ms);

/** Advances the time with a reading every hour, as a running server does. */
function run(history: ClockHistory, hours: number): ClockHistory {
  let now = history;
  for (let hour = 0; hour < hours; hour += 1) now = after(now, now.seen_at.getTime() + HOUR_MS, HOUR_MS);
  return now;
}

test("trusts a steady clock to the millisecond", () => {
  const history = run(known(), 1_000);
  assert.equal(trustedTime(history).getTime(), AT + 1_000 * HOUR_MS);
});

test("trusts a start ten years ahead after a day of running, and not before", () => {
  const started = after(known(), AT + 10 * YEAR_MS);
  assert.equal(trustedTime(started).getTime(), AT);
  assert.equal(trustedTime(run(started, 23)).getTime(), AT + 23 * HOUR_MS, "retention uses the earlier time");
  assert.equal(trustedTime(run(started, 24)).getTime(), AT + 10 * YEAR_MS + 24 * HOUR_MS);
});

test("a start ten years behind lowers the trusted time, and its correction is trusted after a day", () => {
  const behind = run(after(known(), AT - 10 * YEAR_MS), 100);
  assert.equal(trustedTime(behind).getTime(), AT - 10 * YEAR_MS + 100 * HOUR_MS);
  const back = after(behind, AT + HOUR_MS);
  assert.ok(trustedTime(back).getTime() < AT - 9 * YEAR_MS);
  assert.equal(trustedTime(run(back, 24)).getTime(), AT + 25 * HOUR_MS);
});

test("a jump ahead that is reverted has no effect", () => {
  const ahead = run(after(run(known(), 5), AT + 5 * HOUR_MS + 15 * 24 * HOUR_MS), 7);
  const back = after(ahead, AT + 12 * HOUR_MS);
  assert.equal(untrustedMs(back), 0);
  assert.equal(trustedTime(back).getTime(), AT + 12 * HOUR_MS);
});

test("a server that was off for a month trusts the time a day later", () => {
  const month_ms = 30 * 24 * HOUR_MS;
  assert.equal(untrustedMs(run(after(known(), AT + month_ms), 24)), 0);
});

test("on a machine that is switched off or suspended each night the trusted time is at most two days behind", () => {
  let history = known();
  for (let day = 0; day < 100; day += 1) {
    history = run(history, 8);
    history = after(history, history.seen_at.getTime() + 16 * HOUR_MS);
    assert.ok(untrustedMs(history) <= 3 * 16 * HOUR_MS, String(untrustedMs(history) / HOUR_MS));
  }
});

test("a restart loop keeps a bounded history and trusts the time eventually", () => {
  let history = known();
  for (let start = 0; start < 1_000; start += 1) history = after(history, history.seen_at.getTime() + 60_000);
  assert.ok(history.jumps.length <= 32);
  assert.equal(untrustedMs(history), 60_000_000);
  assert.equal(untrustedMs(run(history, 24)), 0);
});

test("for any jumps, the trusted time is never later than any reading of the last day of running time", () => {
  const step = fc.record({
    jump_ms: fc.integer({ min: -20 * YEAR_MS, max: 20 * YEAR_MS }),
    elapsed_ms: fc.integer({ min: 0, max: 2 * HOLD_MS }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let history = known();
      let monotonic = 0;
      // Offsets of the wall clock from the monotonic clock, and when each ended. A reading within HOLD_MS bounds the trusted time.
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
