import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rollout } from "@roamfleet/protocol/routes";
import { Fault } from "../../../kernel/fault.ts";
import { VERIFY_SECONDS_DEFAULT } from "../policy.ts";
import { checkConfigRollout, checkRollout, checkWindow, nextWindow, type Window } from "./check-rollout.ts";
import fc from "fast-check";

const NOW = new Date("2030-01-01T00:00:00Z");
const LATER = new Date("2030-01-02T00:00:00Z");
const check = (rollout: Rollout, kind: "robot" | "fleet" = "fleet", scheduled_at: Date | null = null): string => {
  try {
    checkRollout(rollout, kind, NOW, scheduled_at);
    return "fine";
  } catch (error) {
    assert.ok(error instanceof Fault && error.status === 400, String(error));
    return error.message;
  }
};

const MEMORY = { name: "memory_used_bytes", aggregation: "mean" as const };
const REFUSED: [rollout: Rollout, says: RegExp, kind?: "robot" | "fleet", scheduled_at?: Date][] = [
  [{ waves: [{ percent: 5 }] }, /^rollout\.waves can only be used with a fleet/, "robot"],
  [{ failure_threshold: { count: 1 } }, /^rollout\.failure_threshold can only be used with a fleet/, "robot"],
  [{ waves: [{ percent: 5 }, {}] }, /^rollout\.waves\.1 needs one of percent, count and labels/],
  [{ waves: [{ percent: 5, count: 1 }] }, /^rollout\.waves\.0 accepts only one of percent, count and labels, not percent and count/],
  [{ waves: [{ labels: {} }] }, /^rollout\.waves\.0\.labels contains no label/],
  [{ waves: [{ percent: 5, gate_metrics: [{ ...MEMORY, above: 1 }] }] }, /^rollout\.waves\.0\.gate_metrics needs soak_seconds/],
  [
    { waves: [{ percent: 5, soak_seconds: 60, gate_metrics: [MEMORY] }] },
    /^rollout\.waves\.0\.gate_metrics\.0 needs one of above, below, rise_percent and fall_percent/,
  ],
  [
    { waves: [{ percent: 5, soak_seconds: 60, gate_metrics: [{ ...MEMORY, above: 1, below: 0 }] }] },
    /^rollout\.waves\.0\.gate_metrics\.0 accepts only one of .*, not above and below/,
  ],
  [{ failure_threshold: {} }, /^rollout\.failure_threshold needs one of percent and count/],
  [{ max_unavailable: { count: 1, percent: 1 } }, /^rollout\.max_unavailable accepts only one of/],
  [{ window: { cron: "never", time_zone: "UTC", duration_minutes: 1 } }, /^rollout\.window\.cron/],
  [{ expires_at: "2029-12-31T00:00:00Z" }, /^rollout\.expires_at must be after now/],
  [{ expires_at: "2030-01-01T12:00:00Z" }, /^rollout\.expires_at must be after scheduled_at/, "fleet", LATER],
  [{ expires_at: "2031-02-01T00:00:00Z" }, /^rollout\.expires_at is more than 365 days/],
];
for (const [rollout, says, kind, scheduled_at] of REFUSED)
  test(`refuses the rollout ${JSON.stringify(rollout)}`, () => assert.match(check(rollout, kind, scheduled_at), says));

test("refuses of a config's rollout what only a release supports, and names the field", () => {
  const refused = (rollout: Rollout) => {
    try {
      checkConfigRollout(rollout);
      return "fine";
    } catch (error) {
      assert.ok(error instanceof Fault && error.status === 400, String(error));
      return error.message;
    }
  };
  const window = { cron: "0 2 * * *", time_zone: "UTC", duration_minutes: 60 };
  assert.match(refused({ window }), /^rollout\.window can only be used with a release: /);
  assert.match(refused({ on_failure: "rollback" }), /^rollout\.on_failure rollback can only be used with a release: /);
  assert.match(refused({ verify_seconds: 60 }), /^rollout\.verify_seconds can only be used with a release: /);
  assert.equal(refused({ waves: [{ count: 1 }], on_failure: "pause", verify_seconds: VERIFY_SECONDS_DEFAULT }), "fine");
  assert.equal(refused({}), "fine");
});

test("accepts a complete rollout policy for a fleet, and most fields for a robot", () => {
  const rollout: Rollout = {
    max_parallel: 20,
    max_unavailable: { percent: 10, group_by: "site" },
    window: { cron: "0 2 * * *", time_zone: "Europe/Berlin", duration_minutes: 60 },
    expires_at: "2030-01-03T00:00:00Z",
    max_attempts: 5,
    verify_seconds: 10,
  };
  assert.equal(check(rollout, "robot"), "fine");
  assert.equal(
    check({ ...rollout, waves: [{ labels: { zone: "a" } }, { count: 3, gate: "manual" }], failure_threshold: { percent: 0 } }),
    "fine",
  );
});

const NIGHTS: Window = { cron: "0 2 * * 1-5", time_zone: "Europe/Berlin", duration_minutes: 120 };
const at = (text: string): Date => new Date(text);
const spoken = (window: ReturnType<typeof nextWindow>) => window && [window.opens_at.toISOString(), window.closes_at.toISOString()];

const TABLE: [name: string, now: string, opens: string, closes: string][] = [
  ["before a window opens", "2030-01-01T00:59:59Z", "2030-01-01T01:00:00.000Z", "2030-01-01T03:00:00.000Z"],
  ["at its opening time", "2030-01-01T01:00:00Z", "2030-01-01T01:00:00.000Z", "2030-01-01T03:00:00.000Z"],
  ["while a window is open", "2030-01-01T02:59:59Z", "2030-01-01T01:00:00.000Z", "2030-01-01T03:00:00.000Z"],
  ["when a window closes", "2030-01-01T03:00:00Z", "2030-01-02T01:00:00.000Z", "2030-01-02T03:00:00.000Z"],
  ["after the window of a Friday", "2030-01-04T12:00:00Z", "2030-01-07T01:00:00.000Z", "2030-01-07T03:00:00.000Z"],
  ["in summer time", "2030-07-01T12:00:00Z", "2030-07-02T00:00:00.000Z", "2030-07-02T02:00:00.000Z"],
];
for (const [name, now, opens, closes] of TABLE)
  test(`finds the next nightly deployment window ${name}`, () => assert.deepEqual(spoken(nextWindow(NIGHTS, at(now))), [opens, closes]));

test("refuses an invalid deployment window and names the field", () => {
  const now = at("2030-01-01T00:00:00Z");
  assert.equal(checkWindow(NIGHTS, now), undefined);
  assert.match(checkWindow({ ...NIGHTS, cron: "every night" }, now) ?? "", /^rollout\.window\.cron must be five fields/);
  assert.match(checkWindow({ ...NIGHTS, cron: "0 0 2 * * 1" }, now) ?? "", /^rollout\.window\.cron must be five fields/);
  assert.match(checkWindow({ ...NIGHTS, cron: "0 0 31 2 *" }, now) ?? "", /never open/);
  assert.match(checkWindow({ ...NIGHTS, time_zone: "Europe/Nowhere" }, now) ?? "", /^rollout\.window\.time_zone/);
});

test("the next deployment window is open now or later, and has the requested duration", () => {
  const window = fc.record({
    cron: fc.constantFrom("0 2 * * *", "*/10 * * * *", "30 22 * * 6", "0 0 1 * *", "15 3 29 2 *"),
    time_zone: fc.constantFrom("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"),
    duration_minutes: fc.integer({ min: 1, max: 1_440 }),
  });
  const moment = fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2032, 0) }).map((ms) => new Date(ms));
  fc.assert(
    fc.property(window, moment, (policy, now) => {
      const found = nextWindow(policy, now);
      assert.ok(found !== null && found.closes_at > now);
      assert.equal(found.closes_at.getTime() - found.opens_at.getTime(), policy.duration_minutes * 60_000);
      // At any time while this window is open, `nextWindow` returns a window that has not closed.
      const between = new Date(Math.max(now.getTime(), found.opens_at.getTime()));
      assert.ok((nextWindow(policy, between)?.closes_at ?? now) > between);
    }),
    { numRuns: 60 },
  );
});
