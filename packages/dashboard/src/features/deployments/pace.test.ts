import assert from "node:assert/strict";
import { test } from "node:test";
import type { Deployment } from "@roamfleet/protocol/routes";
import { paceOf } from "./deployment-text.ts";

const COUNTS = { total: 40, pending: 0, queued: 0, active: 20, applied: 9, failed: 1, rolled_back: 0, cancelled: 0 };

function pace(changes: Partial<Deployment> = {}) {
  const rollout = { window: null } as Deployment["rollout"];
  const deployment = {
    status: "in_progress",
    started_at: "2030-01-01T00:00:00Z",
    finished_at: null,
    counts: COUNTS,
    wave_count: 1,
    rollout,
  };
  return paceOf({ ...deployment, ...changes } as Deployment, Date.parse("2030-01-01T00:01:00Z"));
}

test("estimates the time left from the pace so far", () => {
  assert.deepEqual(pace(), { elapsed: 60, left: 180 });
});

test("makes no estimate without enough finished robots, or if the deployment waits between waves", () => {
  for (const changes of [
    { counts: { ...COUNTS, applied: 1 } },
    { counts: { ...COUNTS, active: 0 } },
    { wave_count: 2 },
    { status: "paused" as const },
  ])
    assert.deepEqual(pace(changes), { elapsed: 60, left: undefined });
});

test("returns the duration of an ended deployment, and nothing before the start", () => {
  assert.deepEqual(pace({ status: "applied", finished_at: "2030-01-01T00:00:30Z" }), { elapsed: 30, left: undefined });
  assert.equal(pace({ started_at: null }), undefined);
});
