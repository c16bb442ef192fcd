import assert from "node:assert/strict";
import { test } from "node:test";
import { nullable, row, sql, text, timestamptz } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { cancelDeployment } from "../cancel/cancel.ts";
import { takeProgress, takeReports } from "../report/report.ts";
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
  const say = (seq: number, status: "staged" | "installing", attempt = 1) =>
    takeReports(plane.db.forOrg(rig.org_id), plane, rig.org_id, [rig.report(0, seq, rig.about(0, 0, { status, attempt }))]);
  const { id: target_id } = await target();
  const hold = (robot_id = rig.robot_ids[0] ?? "", attempt = 1) => {
    const session = { org_id: rig.org_id, robot_id } as Parameters<typeof takeProgress>[2];
    const progress = { target_id, attempt, bytes_done: 3, bytes_total: 3, waiting_for: "robot" } as const;
    return takeProgress(plane.db.forOrg(rig.org_id), plane, session, { type: "progress", ...progress });
  };
  return { it, rig, plane, deployment_id, target, say, hold };
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
