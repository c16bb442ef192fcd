import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom, SimulatedClock } from "@roamfleet/clock";
import { backoffMs, retryAfterMs, sensibleWaitMs } from "./backoff.ts";

test("backoff delays are uniformly distributed over a window that doubles from 1 s to 60 s", () => {
  const clock = { random: seededRandom(3) };
  for (const [attempt, bound] of [
    [0, 1_000],
    [1, 2_000],
    [5, 32_000],
    [6, 60_000],
    [5_000, 60_000],
  ] as const) {
    const waits = Array.from({ length: 2_000 }, () => backoffMs(clock, attempt));
    assert.ok(Math.max(...waits) <= bound && Math.max(...waits) > bound * 0.98, `${attempt}`);
    assert.ok(Math.min(...waits) < bound * 0.02, `${attempt}`);
    const mean = waits.reduce((sum, wait) => sum + wait, 0) / waits.length;
    assert.ok(Math.abs(mean / bound - 0.5) < 0.03, `${attempt}: ${mean}`);
  }
});

test("parses Retry-After as seconds, or as a date relative to the server's Date header", () => {
  const clock = new SimulatedClock({ at: "1970-01-01T00:00:00Z" });
  assert.equal(retryAfterMs("7", undefined, clock), 7_000);
  assert.equal(retryAfterMs("Fri, 01 Mar 2030 00:00:30 GMT", "Fri, 01 Mar 2030 00:00:00 GMT", clock), 30_000);
  assert.equal(retryAfterMs("Fri, 01 Mar 2030 00:00:00 GMT", "Fri, 01 Mar 2030 00:00:30 GMT", clock), 0);
  assert.equal(retryAfterMs("soon", undefined, clock), undefined);
  assert.equal(retryAfterMs(undefined, undefined, clock), undefined);
});

test("ignores an invalid retry delay and limits a valid one to an hour", () => {
  for (const value of [-1, Number.NaN, Number.POSITIVE_INFINITY, "5", null, undefined]) assert.equal(sensibleWaitMs(value), undefined);
  assert.equal(sensibleWaitMs(1e12), 3_600_000);
});
