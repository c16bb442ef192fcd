import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportedStatus } from "@roamfleet/protocol/link";
import { nullable, row, sql, text, timestamptz } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { cancelDeployment } from "../cancel/cancel.ts";
import { takeProgress, takeReports } from "../report/report.ts";
import { rollBackDeployment } from "../rollback/rollback.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { endLateSteps, endPendingTargets } from "../cancel/end-targets.ts";

const TIMEOUT = { timeout: 120_000 };
const targetRow = row({ id: text, status: text, reason: nullable(text), waiting_for: nullable(text), deadline_at: nullable(timestamptz) });

async function heldUpdate() {
  const it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 1);
  const { plane } = it;
  const [deployment_id] = rig.deployment_ids;
  const target = () =>
    plane.db.one(
      sql(targetRow)`select id, status, reason, waiting_for, deadline_at from deployment_target where deployment_id = ${deployment_id}`,
    );
  const say = (seq: number, status: ReportedStatus, attempt = 1) =>
    takeReports(plane.db.forOrg(rig.org_id), plane, rig.org_id, [rig.report(0, seq, rig.about(0, 0, { status, attempt }))]);
  const { id: target_id } = await target();
  const send = (robot_id: string, attempt: number, more: { waiting_for?: "robot" }) => {
    const session = { org_id: rig.org_id, robot_id } as Parameters<typeof takeProgress>[2];
    const progress = { target_id, attempt, bytes_done: 3, bytes_total: 3, ...more };
    return takeProgress(plane.db.forOrg(rig.org_id), plane, session, { type: "progress", ...progress });
  };
  const hold = (robot_id = rig.robot_ids[0] ?? "", attempt = 1) => send(robot_id, attempt, { waiting_for: "robot" });
  const progress = (attempt = 1) => send(rig.robot_ids[0] ?? "", attempt, {});
  /** Advances the clock by `minutes` in steps of half a minute. After each step, calls `step` and then runs the background work. */
  const pass = async (minutes: number, step: () => Promise<void>) => {
    for (let steps = 0; steps < 2 * minutes; steps += 1) {
      await it.clock.advance({ seconds: 30 });
      await step();
      await endPendingTargets(plane.db, plane);
      await endLateSteps(plane.db, plane);
    }
  };
  return { it, rig, plane, deployment_id, target, say, hold, progress, pass };
}

test("an update that the robot delays has no timeout until the deployment expires", TIMEOUT, async () => {
  const { it, plane, target, say, hold } = await heldUpdate();
  await using _ = it;
  await say(1, "staged");
  await hold("rob_of_somebody_else");
  await hold(undefined, 2);
  assert.notEqual((await target()).deadline_at, null, "neither another robot nor another attempt can hold it back");
  await hold();
  const { status, waiting_for, deadline_at } = await target();
  assert.deepEqual({ status, waiting_for, deadline_at }, { status: "staged", waiting_for: "robot", deadline_at: null });
  await it.clock.advance({ days: 6, hours: 23 });
  await endLateSteps(plane.db, plane);
  await endPendingTargets(plane.db, plane);
  assert.equal((await target()).status, "staged");
  await it.clock.advance({ hours: 2 });
  await endPendingTargets(plane.db, plane);
  const end = await target();
  assert.deepEqual([end.status, end.reason, end.waiting_for], ["cancelled", "expired", null]);
});

test("a delayed update times out normally once the robot installs it", TIMEOUT, async () => {
  const { it, plane, target, say, hold } = await heldUpdate();
  await using _ = it;
  await say(1, "staged");
  await hold();
  await say(2, "installing");
  await hold();
  const { status, waiting_for, deadline_at } = await target();
  assert.deepEqual([status, waiting_for], ["installing", null]);
  assert.ok(deadline_at !== null && deadline_at > it.clock.now());
  await it.clock.advance({ days: 1 });
  await endLateSteps(plane.db, plane);
  assert.deepEqual([(await target()).status, (await target()).reason], ["failed", "timeout"]);
});

test("cancels a delayed update without waiting for the robot's update lock", TIMEOUT, async () => {
  const { it, rig, plane, deployment_id, target, say, hold } = await heldUpdate();
  await using _ = it;
  await say(1, "staged");
  await hold();
  await cancelDeployment(plane.db.forOrg(rig.org_id), plane, rig.org_id, deployment_id, rig.caller.actor);
  await hold();
  await it.clock.advance({ minutes: 2 });
  await endLateSteps(plane.db, plane);
  assert.deepEqual([(await target()).status, (await target()).reason], ["cancelled", "user_cancelled"]);
});

for (const [status, message] of [
  ["downloading", "progress"],
  ["dispatched", "hold"],
  ["staged", "hold"],
] as const)
  test(`a rollback ends a ${status} target after a minute even if its robot keeps sending ${message} messages`, TIMEOUT, async () => {
    const held = await heldUpdate();
    const { it, rig, plane, deployment_id, target, say, pass } = held;
    await using _ = it;
    if (status !== "dispatched") await say(1, status);
    await rollBackDeployment(plane.db.forOrg(rig.org_id), plane, rig.caller, deployment_id);
    await pass(2, () => held[message]());
    assert.deepEqual([(await target()).status, (await target()).reason], ["cancelled", "rollback_requested"]);
  });

test("a rollback asks a robot to stop even if its target has no deadline", TIMEOUT, async () => {
  const { it, rig, plane, deployment_id, target, say, pass } = await heldUpdate();
  await using _ = it;
  await say(1, "staged");
  await rollBackDeployment(plane.db.forOrg(rig.org_id), plane, rig.caller, deployment_id);
  // Simulate a delay that was read before the rollback was requested, and is written after it.
  await plane.db.run(sql`update deployment_target set deadline_at = null where deployment_id = ${deployment_id}`);
  await pass(2, () => Promise.resolve());
  assert.deepEqual([(await target()).status, (await target()).reason], ["cancelled", "rollback_requested"]);
});

test("a robot cannot delay a rollback that it began itself", TIMEOUT, async () => {
  const { it, target, say, hold, pass } = await heldUpdate();
  await using _ = it;
  await say(1, "rolling_back");
  await pass(20, hold);
  assert.deepEqual([(await target()).status, (await target()).reason], ["failed", "rollback_failed"]);
});

for (const message of ["progress", "hold"] as const)
  test(`a requested rollback does not time out while its robot sends ${message} messages, also after a cancellation`, TIMEOUT, async () => {
    const held = await heldUpdate();
    const { it, rig, plane, deployment_id, target, say, pass } = held;
    await using _ = it;
    await say(1, "installing");
    await cancelDeployment(plane.db.forOrg(rig.org_id), plane, rig.org_id, deployment_id, rig.caller.actor, { mode: "rollback" });
    await say(2, "applied");
    assert.equal((await target()).status, "rolling_back");
    await pass(40, () => (message === "hold" ? held.hold(undefined, 2) : held.progress(2)));
    assert.equal((await target()).status, "rolling_back");
    await pass(30, () => Promise.resolve());
    assert.equal((await target()).status, message === "hold" ? "rolling_back" : "failed");
  });
