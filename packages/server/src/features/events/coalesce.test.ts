import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { Change } from "@roamfleet/protocol/routes";
import { BURST_CHANGES_MAX, Coalescer, SUMMARY_WINDOW_MS } from "./coalesce.ts";

const clockOf = () => new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
const target = (id: number, more: Partial<Change> = {}): Change => ({
  kind: "target",
  id: `tgt_${id}`,
  change: "status",
  robot_id: `rob_${id}`,
  deployment_id: "dep_1",
  status: "applied",
  ...more,
});
const targets = (count: number, more: Partial<Change> = {}): Change[] => Array.from({ length: count }, (_, i) => target(i, more));

test("sends only the newest change of each object and type, in order", () => {
  const coalescer = new Coalescer(clockOf());
  const taken = coalescer.take([
    target(1, { status: "downloading" }),
    target(1, { change: "progress", status: "downloading" }),
    target(2),
    target(1, { status: "applied" }),
  ]);
  assert.deepEqual(taken, [target(1, { change: "progress", status: "downloading" }), target(2), target(1, { status: "applied" })]);
});

test("keeps each move of a robot, because it changes the counts of several places", () => {
  const moved = { kind: "robot", id: "rob_1", change: "moved" } as const;
  const moves = [
    { ...moved, fleet_id: "flt_2", from_fleet_id: "flt_1" },
    { ...moved, fleet_id: "flt_3", from_fleet_id: "flt_2" },
  ];
  assert.deepEqual(new Coalescer(clockOf()).take(moves), moves);
});

test("sends one summary with the shared fields if the changes of a kind exceed its burst limit", () => {
  const coalescer = new Coalescer(clockOf());
  const robot: Change = { kind: "robot", id: "rob_1", change: "release" };
  const taken = coalescer.take([robot, ...targets(BURST_CHANGES_MAX), target(900, { status: "failed" })]);
  assert.deepEqual(taken, [robot, { kind: "target", change: "status", deployment_id: "dep_1", count: BURST_CHANGES_MAX + 1 }]);
  const two_deployments = new Coalescer(clockOf()).take([...targets(BURST_CHANGES_MAX), target(900, { deployment_id: "dep_2" })]);
  assert.deepEqual(two_deployments, [{ kind: "target", change: "status", status: "applied", count: BURST_CHANGES_MAX + 1 }]);
});

test("limits a steady stream of changes to one per second, and allows bursts again after a pause", async () => {
  const clock = clockOf();
  const coalescer = new Coalescer(clock);
  assert.equal(coalescer.take(targets(BURST_CHANGES_MAX)).length, BURST_CHANGES_MAX);
  let sent = 0;
  for (let second = 0; second < 60; second += SUMMARY_WINDOW_MS / 1_000) {
    await clock.advance({ milliseconds: SUMMARY_WINDOW_MS });
    assert.equal(coalescer.waitMs(), 0);
    sent += coalescer.take(targets(5)).filter((one) => !("count" in one)).length;
  }
  assert.ok(sent <= 60, `${sent} changes`);
  await clock.advance({ seconds: BURST_CHANGES_MAX });
  assert.equal(coalescer.take(targets(BURST_CHANGES_MAX)).length, BURST_CHANGES_MAX);
});

test("delays further events after each event, and longer after a summary", async () => {
  const clock = clockOf();
  const coalescer = new Coalescer(clock);
  assert.equal(coalescer.waitMs(), 0);
  coalescer.take([target(1)]);
  const short_ms = coalescer.waitMs();
  assert.ok(short_ms > 0 && short_ms < SUMMARY_WINDOW_MS);
  await clock.advance({ milliseconds: short_ms });
  coalescer.take([]);
  assert.equal(coalescer.waitMs(), 0);
  coalescer.take(targets(BURST_CHANGES_MAX + 1));
  assert.equal(coalescer.waitMs(), SUMMARY_WINDOW_MS);
});
