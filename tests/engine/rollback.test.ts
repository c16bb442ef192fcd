import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { publicKeyOf, signTrust } from "@roamfleet/protocol/signatures";
import { ApiError } from "@roamfleet/sdk";
import { ignore, rollBack, type SimulatedRobot, stuckAt } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };
const HOUR_MS = 3_600_000;

const rollback = async (plane: Harness, id: string) => (await plane.api.rollBackDeployment({ params: { id } })).data;
const isConflict = (error: unknown): boolean => error instanceof ApiError && error.status === 409;
const shown = async (plane: Harness, id: string) => {
  const { status, reason } = await plane.deployment(id);
  return { status, reason };
};
/** Returns the status and reason of a robot in a deployment. */
async function standing(plane: Harness, id: string, robot: SimulatedRobot): Promise<string> {
  const target = (await plane.targets(id)).get(robot.id);
  return `${target?.status} ${target?.reason}`;
}
async function robotsRunning(plane: Harness, count: number, fleet_id: string) {
  const before = await plane.release();
  const robots = await plane.enrollRobots(count, { fleet_id });
  for (const robot of robots) await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  return { before, robots };
}

test("a running deployment can be rolled back while its robots are in any status", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const { before, robots } = await robotsRunning(plane, 10, fleet_id);
  const [quick, downloading, staged, installing, verifying, sick, unwell, gone, newer, away] = robots;
  assert.ok(quick && downloading && staged && installing && verifying && sick && unwell && gone && newer && away);
  const fresh = await plane.enrollRobot({ fleet_id });
  const removed = await plane.enrollRobot({ fleet_id });
  const [release, other] = [await plane.release(), await plane.release()];
  downloading.behave({ step_ms: { downloading: HOUR_MS } }, release.id);
  staged.behave({ step_ms: { staged: HOUR_MS } }, release.id);
  installing.behave({ step_ms: { installing: 60_000 } }, release.id);
  verifying.behave({ step_ms: { verifying: 60_000 } }, release.id);
  sick.behave(rollBack("crash_loop"), release.id);
  unwell.behave(rollBack("crash_loop", { rolling_back: 60_000 }), release.id);
  await away.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await gone.disconnect();
  await plane.settle();
  await plane.deploy(other, { robot_id: newer.id });
  await plane.settle();
  await plane.api.deleteRobot({ params: { id: removed.id } });
  assert.deepEqual(await standing(plane, id, removed), "applied null");
  await checkEngine(plane);

  const answered = await rollback(plane, id);
  assert.deepEqual([answered.id, answered.status, answered.reason], [id, "rolling_back", "rollback_requested"]);
  assert.equal(answered.counts.applied + answered.counts.queued, 0);
  assert.deepEqual((await rollback(plane, id)).status, "rolling_back", "a second request has no effect");
  await plane.settle();
  await checkEngine(plane);
  assert.equal(quick.runs(), before.tag);
  assert.equal(fresh.runs(), undefined);
  await plane.advance({ minutes: 3 });
  await checkEngine(plane);
  assert.equal(await standing(plane, id, gone), "rolling_back rollback_requested");
  assert.equal((await plane.deployment(id)).status, "rolling_back");
  await gone.connect();
  await plane.advance({ minutes: 1 });
  for (const robot of [quick, fresh, installing, verifying, gone])
    assert.equal(await standing(plane, id, robot), "rolled_back rollback_requested");
  for (const robot of [downloading, staged, away]) assert.equal(await standing(plane, id, robot), "cancelled rollback_requested");
  for (const robot of [sick, unwell]) assert.equal(await standing(plane, id, robot), "rolled_back crash_loop");
  assert.equal(await standing(plane, id, newer), "cancelled superseded");
  assert.equal(await standing(plane, id, removed), "cancelled robot_removed");
  for (const robot of [quick, downloading, staged, installing, verifying, sick, unwell, gone])
    assert.equal(robot.runs(), before.tag, robot.id);
  assert.equal(newer.runs(), other.tag);
  assert.deepEqual(await shown(plane, id), { status: "rolled_back", reason: "rollback_requested" });
  assert.equal((await plane.deployment(id)).counts.applied, 0);
  assert.deepEqual(await plane.events(id), [
    "deployment.queued",
    "deployment.in_progress",
    "deployment.rolling_back",
    "deployment.rolled_back",
  ]);
  await away.connect();
  await plane.advance({ minutes: 1 });
  assert.equal(away.runs(), before.tag);
  const { data } = await plane.api.getRobot({ params: { id: quick.id } });
  assert.deepEqual([data.current_release?.id, data.desired_release?.id, data.release_state], [before.id, before.id, "current"]);
  await checkEngine(plane, { ended: true });
});

test("a rollback fails on a robot that stays offline until the deployment expires", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: { deployment_expiry_hours: 0.5 } });
  const fleet_id = await plane.fleet();
  const { before, robots } = await robotsRunning(plane, 3, fleet_id);
  const [here, gone, waiting] = robots;
  assert.ok(here && gone && waiting);
  await waiting.disconnect();
  await plane.settle();
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await gone.disconnect();
  await plane.settle();
  await rollback(plane, id);
  await plane.advance({ minutes: 25 });
  assert.equal((await plane.deployment(id)).status, "rolling_back");
  await plane.advance({ minutes: 7 });
  assert.equal(await standing(plane, id, gone), "failed rollback_failed");
  assert.deepEqual(await shown(plane, id), { status: "failed", reason: "rollback_failed" });
  await checkEngine(plane, { ended: true });
  await gone.connect();
  await plane.advance({ minutes: 1 });
  assert.equal(await standing(plane, id, gone), "failed rollback_failed", "later reports do not change a final status");
  assert.equal(here.runs(), before.tag);
});

test("a rollback fails on robots that cannot roll back or do not respond before the timeout", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const { before, robots } = await robotsRunning(plane, 4, fleet_id);
  const [broken, silent, late, waiting] = robots;
  assert.ok(broken && silent && late && waiting);
  await waiting.disconnect();
  await plane.settle();
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  broken.behave(rollBack("crash_loop"), before.id);
  silent.behave(ignore, before.id);
  late.behave({ step_ms: { verifying: 30_000 } }, before.id);
  await late.disconnect();
  await plane.settle();
  await rollback(plane, id);
  await plane.settle();
  assert.equal(await standing(plane, id, broken), "failed rollback_failed");
  assert.equal(broken.runs(), release.tag);
  await plane.advance({ minutes: 15 });
  assert.equal(await standing(plane, id, silent), "rolling_back rollback_requested");
  await plane.advance({ minutes: 10 });
  assert.equal(await standing(plane, id, silent), "failed rollback_failed");
  assert.equal(await standing(plane, id, late), "rolling_back rollback_requested");
  await late.connect();
  await plane.advance({ seconds: 20 });
  assert.equal(await standing(plane, id, late), "rolling_back rollback_requested");
  await plane.advance({ seconds: 20 });
  assert.equal(await standing(plane, id, late), "rolled_back rollback_requested");
  assert.equal((await plane.deployment(id)).status, "failed");
  await checkEngine(plane, { ended: true });
});

for (const [step, end, runs] of [
  ["downloading", "cancelled", "before"],
  ["verifying", "rolled_back", "before"],
] as const)
  test(`a deployment rolled back while its only robot is ${step} ends ${end}`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const { before, robots } = await robotsRunning(plane, 1, await plane.homeFleet());
    const [robot] = robots;
    assert.ok(robot);
    const release = await plane.release();
    robot.behave({ step_ms: { [step]: 60_000 } }, release.id);
    const { id } = await plane.deploy(release, { robot_id: robot.id });
    await plane.settle();
    await rollback(plane, id);
    await plane.advance({ minutes: 2 });
    assert.deepEqual(await shown(plane, id), { status: end, reason: "rollback_requested" });
    assert.equal(robot.runs(), { before: before.tag }[runs]);
    await checkEngine(plane, { ended: true });
  });

test("a robot that ignores a rollback times out after a minute, even across a server restart", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const { before, robots } = await robotsRunning(plane, 3, fleet_id);
  const [deaf, gone, waiting] = robots;
  assert.ok(deaf && gone && waiting);
  const release = await plane.release();
  deaf.behave(stuckAt("downloading"), release.id);
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await gone.disconnect();
  await plane.settle();
  await rollback(plane, id);
  await plane.restart();
  await plane.advance({ seconds: 70 });
  assert.equal(await standing(plane, id, deaf), "cancelled rollback_requested");
  assert.equal(waiting.runs(), before.tag);
  await plane.restart();
  await gone.connect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(await shown(plane, id), { status: "rolled_back", reason: "rollback_requested" });
  await checkEngine(plane, { ended: true });
});

test("a rollback starts immediately, and a newer deployment waits for it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const { before, robots } = await robotsRunning(plane, 2, fleet_id);
  const [robot, waiting] = robots;
  assert.ok(robot && waiting);
  await waiting.disconnect();
  await plane.settle();
  const [release, next] = [await plane.release(), await plane.release()];
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  robot.behave({ step_ms: { verifying: 30_000 } }, before.id);
  await rollback(plane, id);
  await plane.settle();
  const newer = await plane.deploy(next, { robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.targets(newer.id)).get(robot.id)?.waiting_for, "previous_deployment");
  await plane.advance({ minutes: 1 });
  assert.equal(await standing(plane, id, robot), "rolled_back rollback_requested");
  assert.deepEqual(await shown(plane, newer.id), { status: "applied", reason: null });
  assert.equal(robot.runs(), next.tag);
  await checkEngine(plane, { ended: true });
});

test("refuses to roll back a deployment that has not started, is being cancelled, or updated no robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { robots } = await robotsRunning(plane, 1, await plane.homeFleet());
  const [robot] = robots;
  assert.ok(robot);
  const release = await plane.release();
  const held = await plane.deploy(release, { robot_id: robot.id }, { scheduled_at: "2030-01-02T00:00:00Z" });
  await assert.rejects(rollback(plane, held.id), isConflict);
  robot.behave({ step_ms: { verifying: 60_000 }, failure: { at: "verifying", reason: "crash_loop" } }, release.id);
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  await plane.api.cancelDeployment({ params: { id } });
  await assert.rejects(rollback(plane, id), isConflict);
  await plane.advance({ minutes: 2 });
  assert.equal((await plane.deployment(id)).status, "rolled_back");
  await assert.rejects(rollback(plane, id), isConflict);
  await assert.rejects(
    rollback(plane, "dep_00000000000000000000000000"),
    (error: unknown) => error instanceof ApiError && error.status === 404,
  );
});

test("refuses to roll back a running deployment if its robots would refuse their previous release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const { robots } = await robotsRunning(plane, 2, fleet_id);
  const [here, away] = robots;
  assert.ok(here && away);
  await away.disconnect();
  await plane.settle();
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  const { privateKey } = generateKeyPairSync("ed25519");
  const keys = [{ name: "maker", public_key: publicKeyOf(privateKey) }];
  const statement = signTrust({ org_id: plane.default_org.id, serial: 1, require_signature: true, keys, issued_at: AT }, privateKey);
  await plane.api.changeSigningKeys({ body: { statement } });
  await assert.rejects(rollback(plane, id), (error) => isConflict(error) && /would refuse it.*cancel it/.test(String(error)));
  assert.deepEqual(await shown(plane, id), { status: "in_progress", reason: null });
  assert.equal(here.runs(), release.tag);
  await checkEngine(plane);
});
