import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rollout } from "@roamfleet/protocol/routes";
import { Fault } from "../../../kernel/fault.ts";
import { checkRollout } from "./check-rollout.ts";

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

const REFUSED: [rollout: Rollout, says: RegExp, kind?: "robot" | "fleet", scheduled_at?: Date][] = [
  [{ waves: [{ percent: 5 }] }, /^rollout\.waves are for a fleet/, "robot"],
  [{ failure_threshold: { count: 1 } }, /^rollout\.failure_threshold is for a fleet/, "robot"],
  [{ waves: [{ percent: 5 }, {}] }, /^rollout\.waves\.1 needs one of percent, count and labels/],
  [{ waves: [{ percent: 5, count: 1 }] }, /^rollout\.waves\.0 takes only one of percent, count and labels, not percent and count/],
  [{ waves: [{ labels: {} }] }, /^rollout\.waves\.0\.labels names no label/],
  [{ failure_threshold: {} }, /^rollout\.failure_threshold needs one of percent and count/],
  [{ max_unavailable: { count: 1, percent: 1 } }, /^rollout\.max_unavailable takes only one of/],
  [{ window: { cron: "never", time_zone: "UTC", duration_minutes: 1 } }, /^rollout\.window\.cron/],
  [{ expires_at: "2029-12-31T00:00:00Z" }, /^rollout\.expires_at must be after now/],
  [{ expires_at: "2030-01-01T12:00:00Z" }, /^rollout\.expires_at must be after scheduled_at/, "fleet", LATER],
  [{ expires_at: "2031-02-01T00:00:00Z" }, /^rollout\.expires_at is more than 365 days/],
];
for (const [rollout, says, kind, scheduled_at] of REFUSED)
  test(`refuses ${JSON.stringify(rollout)}`, () => assert.match(check(rollout, kind, scheduled_at), says));

test("accepts a complete policy for a fleet, and most fields for a robot", () => {
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
