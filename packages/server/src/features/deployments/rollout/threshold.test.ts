import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { acceptedByResume, isExceeded, isTooMany, type Tally } from "./threshold.ts";

const tally = (failed: number, dispatched: number, applied = dispatched - failed): Tally => ({
  applied,
  failed,
  rolled_back: 0,
  dispatched,
});
const policy = (failure_threshold: Parameters<typeof isTooMany>[1]) => ({ waves: null, failure_threshold });

const TABLE: [name: string, too_many: boolean, Tally, Parameters<typeof isTooMany>[1]][] = [
  ["without a threshold no failure is allowed", true, tally(1, 1_000), null],
  ["without failures the threshold is not exceeded", false, tally(0, 10), null],
  ["as many as the count allows", false, tally(3, 10), { count: 3, min_decided: 1 }],
  ["one more than the count allows", true, tally(4, 10), { count: 3, min_decided: 1 }],
  ["exactly the percentage of those dispatched", false, tally(10, 100), { percent: 10, min_decided: 1 }],
  ["one more than the percentage", true, tally(11, 100), { percent: 10, min_decided: 1 }],
  ["the percentage is of those dispatched, not of those that ended", false, tally(2, 20, 0), { percent: 10, min_decided: 1 }],
  ["robots that cannot run it, before anything was dispatched", true, tally(1, 0, 0), { percent: 50, min_decided: 1 }],
];
for (const [name, too_many, fared, threshold] of TABLE)
  test(`${name}: ${too_many ? "too many" : "not too many"}`, () => assert.equal(isTooMany(fared, threshold), too_many));

test("rolled back robots count like failed ones", () => {
  assert.ok(isTooMany({ applied: 0, failed: 1, rolled_back: 1, dispatched: 10 }, { count: 1, min_decided: 1 }));
});

test("a rollout does not stop early without waves and threshold, or before min_decided robots have ended", () => {
  assert.equal(isExceeded(tally(5, 5), policy(null), 0), false);
  assert.equal(isExceeded(tally(5, 5), { waves: [], failure_threshold: null }, 0), true);
  assert.equal(isExceeded(tally(5, 9), policy({ percent: 10, min_decided: 10 }), 0), false);
  assert.equal(isExceeded(tally(5, 10), policy({ percent: 10, min_decided: 10 }), 0), true);
});

const anyTally = fc
  .record({ applied: fc.nat(50), failed: fc.nat(50), rolled_back: fc.nat(50), active: fc.nat(50) })
  .map(({ active, ...ends }): Tally => ({ ...ends, dispatched: ends.applied + ends.failed + ends.rolled_back + active }));
const anyThreshold = fc.oneof(
  fc.record({ percent: fc.nat(100), min_decided: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ count: fc.nat(50), min_decided: fc.integer({ min: 1, max: 30 }) }),
);

test("after a resume past the threshold the same failures do not exceed it again, and the next one does", () => {
  fc.assert(
    fc.property(anyTally, anyThreshold, (fared, threshold) => {
      const accepted = acceptedByResume(fared, policy(threshold), 0);
      assert.equal(accepted > 0, isExceeded(fared, policy(threshold), 0));
      assert.equal(isExceeded(fared, policy(threshold), accepted), false);
      // Robots dispatched since then reduce the percentage; that must not allow a further failure.
      const worse = { ...fared, failed: fared.failed + 1, dispatched: fared.dispatched + 1_000, applied: fared.applied + 999 };
      assert.equal(isExceeded(worse, policy(threshold), accepted), accepted > 0 || isExceeded(worse, policy(threshold), 0));
      assert.equal(acceptedByResume(worse, policy(threshold), accepted) >= accepted, true);
    }),
  );
});

test("a further failure never brings a rollout back below its threshold", () => {
  fc.assert(
    fc.property(anyTally, anyThreshold, (fared, threshold) => {
      const worse = { ...fared, applied: Math.max(0, fared.applied - 1), failed: fared.failed + Math.min(1, fared.applied) };
      if (isTooMany(fared, threshold)) assert.ok(isTooMany(worse, threshold));
    }),
  );
});
