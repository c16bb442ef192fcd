import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "@roamfleet/sdk";
import { ignore, rollBack, slow, stuckAt } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

const cancel = async (plane: Harness, id: string) => (await plane.api.cancelDeployment({ params: { id } })).data;
const shown = async (plane: Harness, id: string) => {
  const { status, reason } = await plane.deployment(id);
  return { status, reason };
};
const CANCELLED = { status: "cancelled", reason: "user_cancelled" };

test("a deployment cancelled while its robot is offline ends immediately and is never delivered", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const answered = await cancel(plane, id);
  assert.deepEqual({ status: answered.status, reason: answered.reason }, CANCELLED);
  await robot.connect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(
    robot.received.filter(({ apps }) => apps.main?.target_id != null),
    [],
  );
  await checkEngine(plane, { ended: true });
});

for (const [step, seconds] of [
  ["downloading", 2],
  ["staged", 12],
] as const) {
  test(`a robot that is ${step} stops and keeps its previous release when its deployment is cancelled`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const robot = await plane.enrollRobot();
    const [before, release] = [await plane.release(), await plane.release()];
    await plane.deploy(before, { robot_id: robot.id });
    await plane.settle();
    robot.behave(slow(10_000), release.id);
    const { id } = await plane.deploy(release, { robot_id: robot.id });
    await plane.settle();
    await plane.advance({ seconds });
    assert.equal((await plane.targets(id)).get(robot.id)?.status, step);
    const answered = await cancel(plane, id);
    assert.deepEqual([answered.status, answered.counts.active], ["cancelling", 1]);
    await plane.settle();
    assert.deepEqual(await shown(plane, id), CANCELLED);
    const wanted = robot.received.at(-1)?.apps.main;
    assert.deepEqual([wanted?.target_id, wanted?.release?.id, robot.runs()], [null, before.id, before.tag]);
    await plane.advance({ minutes: 2 });
    assert.equal(robot.runs(), before.tag);
    assert.deepEqual(await plane.events(id), [
      "deployment.queued",
      "deployment.in_progress",
      "deployment.cancelling",
      "deployment.cancelled",
    ]);
    await checkEngine(plane, { ended: true });
  });
}

for (const [step, seconds] of [
  ["installing", 22],
  ["verifying", 32],
] as const) {
  test(`a deployment cancelled while its robot is ${step} ends with the robot's result`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const robot = await plane.enrollRobot({ behavior: slow(10_000) });
    const release = await plane.release();
    const { id } = await plane.deploy(release, { robot_id: robot.id });
    await plane.settle();
    await plane.advance({ seconds });
    assert.equal((await cancel(plane, id)).status, "cancelling");
    await plane.settle();
    assert.deepEqual([(await plane.deployment(id)).status, (await plane.targets(id)).get(robot.id)?.status], ["cancelling", step]);
    await plane.advance({ seconds: 30 });
    assert.deepEqual(await shown(plane, id), { status: "applied", reason: null });
    assert.equal(robot.runs(), release.tag);
    await checkEngine(plane, { ended: true });
  });
}

test("a deployment cancelled while its robot is rolling back ends as rolled_back", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [good, bad] = [await plane.release(), await plane.release()];
  await plane.deploy(good, { robot_id: robot.id });
  await plane.settle();
  robot.behave(rollBack("crash_loop", { verifying: 10_000, rolling_back: 10_000 }), bad.id);
  const { id } = await plane.deploy(bad, { robot_id: robot.id });
  await plane.settle();
  await plane.advance({ seconds: 12 });
  assert.equal((await plane.targets(id)).get(robot.id)?.status, "rolling_back");
  await cancel(plane, id);
  await plane.advance({ seconds: 20 });
  assert.deepEqual(await shown(plane, id), { status: "rolled_back", reason: "crash_loop" });
  assert.equal(robot.runs(), good.tag);
  await checkEngine(plane, { ended: true });
});

for (const [name, behavior] of [
  ["never began", ignore],
  ["ignores it", stuckAt("downloading")],
] as const) {
  test(`a cancellation waits at most one minute for a robot that ${name}`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const robot = await plane.enrollRobot({ behavior });
    const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
    await plane.settle();
    await cancel(plane, id);
    await plane.advance({ seconds: 55 });
    assert.equal((await plane.deployment(id)).status, "cancelling");
    await plane.advance({ seconds: 10 });
    assert.deepEqual(await shown(plane, id), CANCELLED);
    await checkEngine(plane, { ended: true });
  });
}

test("cancelling a fleet deployment cancels queued and downloading targets, but no installing or ended ones", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [quick, downloading, installing, away] = await plane.enrollRobots(4, { fleet_id });
  assert.ok(quick && downloading && installing && away);
  downloading.behave({ step_ms: { downloading: 3_600_000 } });
  installing.behave({ step_ms: { installing: 60_000 } });
  await away.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(await plane.release(), { fleet_id });
  await plane.settle();
  await checkEngine(plane);
  const { counts } = await cancel(plane, id);
  assert.deepEqual(counts, { total: 4, pending: 0, queued: 0, active: 2, applied: 1, failed: 0, rolled_back: 0, cancelled: 1 });
  await plane.advance({ minutes: 2 });
  const targets = await plane.targets(id);
  assert.deepEqual(
    [quick, downloading, installing, away].map((robot) => targets.get(robot.id)?.status),
    ["applied", "cancelled", "applied", "cancelled"],
  );
  assert.deepEqual(await shown(plane, id), CANCELLED);
  await checkEngine(plane, { ended: true });
});

test("cancelling a deployment is idempotent, and returns 409 for an ended one", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: slow(10_000) });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  await plane.advance({ seconds: 22 });
  const first = await cancel(plane, id);
  await plane.advance({ seconds: 1 });
  const second = await cancel(plane, id);
  assert.deepEqual([second.status, second.cancel_requested_at], ["cancelling", first.cancel_requested_at]);
  assert.equal((await plane.events(id)).filter((kind) => kind === "deployment.cancelling").length, 1);
  await plane.advance({ minutes: 1 });
  await assert.rejects(
    cancel(plane, id),
    (error: unknown) => error instanceof ApiError && error.status === 409 && error.code === "conflict",
  );
  await checkEngine(plane, { ended: true });
});

test("cancelling a deployment that waits for its next attempt stops the robot's previous attempt", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [before, release] = [await plane.release(), await plane.release()];
  await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  robot.behave({ step_ms: { downloading: 1_200_000 } }, release.id);
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  const status = async () => (await plane.targets(id)).get(robot.id)?.status;
  for (let seconds = 0; seconds < 700 && (await status()) !== "queued"; seconds += 5) await plane.advance({ seconds: 5 });
  assert.equal(await status(), "queued", "the step timed out, and the next attempt is queued");
  await cancel(plane, id);
  await plane.settle();
  assert.deepEqual(await shown(plane, id), CANCELLED);
  const wanted = robot.received.at(-1)?.apps.main;
  assert.deepEqual([wanted?.target_id, wanted?.release?.id], [null, before.id]);
  await plane.advance({ minutes: 15 });
  assert.equal(robot.runs(), before.tag);
  await checkEngine(plane, { ended: true });
});

test("a cancelled deployment ends as applied if its robot began to install while offline", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [before, release] = [await plane.release(), await plane.release()];
  await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  robot.behave({ step_ms: { staged: 1_000, installing: 20_000, verifying: 20_000 }, offline_at: "staged" }, release.id);
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.advance({ seconds: 5 });
  assert.equal((await plane.targets(id)).get(robot.id)?.status, "staged", "the last reported status");
  await cancel(plane, id);
  await plane.advance({ seconds: 5 });
  await robot.connect();
  await plane.advance({ minutes: 10 });
  assert.deepEqual(await shown(plane, id), { status: "applied", reason: null });
  assert.equal(robot.runs(), release.tag, "the robot runs the release of the deployment");
  const { data } = await plane.api.getRobot({ params: { id: robot.id } });
  assert.deepEqual([data.current_release?.id, data.desired_release?.id], [release.id, release.id]);
  await checkEngine(plane, { ended: true });
});

test("progress reports do not extend the timeout of a cancellation", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: stuckAt("downloading") });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const target_id = (await plane.targets(id)).get(robot.id)?.id ?? "";
  await cancel(plane, id);
  robot.progress(target_id, 1, 1, 2);
  await plane.advance({ seconds: 70 });
  assert.deepEqual(await shown(plane, id), CANCELLED);
  await checkEngine(plane, { ended: true });
});
