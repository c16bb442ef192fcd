import assert from "node:assert/strict";
import { test } from "node:test";
import { fail, ignore, offlineAt, type RobotStep } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";
import { deployUntilStuck } from "./deploy-until-stuck.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };
/** Six minutes. */
const SHORT = { deployment_expiry_hours: 0.1 };

const shown = async (plane: Harness, id: string) => {
  const { status, reason } = await plane.deployment(id);
  return { status, reason };
};
const targetOf = async (plane: Harness, id: string, robot_id: string) => {
  const target = (await plane.targets(id)).get(robot_id);
  return { status: target?.status, reason: target?.reason, attempt: target?.attempt, waiting_for: target?.waiting_for };
};

test("a deployment to an offline robot expires, and is not delivered when the robot reconnects", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: SHORT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  const { id, expires_at } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  assert.equal(expires_at, "2030-01-01T00:06:00.000Z");
  await plane.advance({ minutes: 5, seconds: 55 });
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "queued", reason: null, attempt: 0, waiting_for: "robot_online" });
  await plane.advance({ seconds: 10 });
  assert.deepEqual(await shown(plane, id), { status: "cancelled", reason: "expired" });
  await robot.connect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(
    robot.received.filter(({ apps }) => apps.main?.target_id != null),
    [],
  );
  await checkEngine(plane, { ended: true });
});

test("a deployment expires if its artifact is never uploaded", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: SHORT });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release({ upload: false }), { robot_id: robot.id });
  await plane.advance({ minutes: 7 });
  assert.deepEqual(await shown(plane, id), { status: "cancelled", reason: "expired" });
});

test("an expired deployment ends its offline targets, but does not interrupt a running installation", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: SHORT });
  const fleet_id = await plane.fleet();
  const [busy, away] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(busy && away);
  busy.behave({ step_ms: { installing: 8 * 60_000 } });
  away.behave(offlineAt("downloading", { downloading: 60_000 }));
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.advance({ minutes: 7 });
  assert.deepEqual(await targetOf(plane, id, away.id), { status: "cancelled", reason: "expired", attempt: 1, waiting_for: null });
  assert.equal((await plane.targets(id)).get(busy.id)?.status, "installing");
  await plane.advance({ minutes: 2 });
  assert.deepEqual(await shown(plane, id), { status: "applied", reason: null });
  assert.equal(away.runs(), release.tag, "it finished while offline");
  await away.connect();
  await plane.settle();
  assert.equal((await targetOf(plane, id, away.id)).status, "cancelled");
  const { data } = await plane.api.getRobot({ params: { id: away.id } });
  assert.equal(data.current_release?.id, release.id, "its current release is still updated");
  await checkEngine(plane, { ended: true });
});

test("a target fails with a timeout after its robot ignored three attempts", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: ignore });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.advance({ seconds: 115 });
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "dispatched", reason: null, attempt: 1, waiting_for: null });
  await plane.advance({ seconds: 10 });
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "queued", reason: "timeout", attempt: 1, waiting_for: null });
  await plane.advance({ seconds: 15 });
  assert.equal((await targetOf(plane, id, robot.id)).attempt, 2);
  await plane.advance({ minutes: 6 });
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "failed", reason: "timeout", attempt: 3, waiting_for: null });
  assert.deepEqual(
    [...new Set(robot.received.flatMap(({ apps }) => (apps.main?.target_id == null ? [] : [apps.main.attempt])))],
    [1, 2, 3],
  );
  assert.deepEqual(await shown(plane, id), { status: "failed", reason: "timeout" });
  await checkEngine(plane, { ended: true });
});

const STUCK: [step: RobotStep, minutes: number, end: { status: string; reason: string; attempt: number }][] = [
  ["downloading", 32, { status: "failed", reason: "timeout", attempt: 3 }],
  ["staged", 32, { status: "failed", reason: "timeout", attempt: 3 }],
  ["installing", 16, { status: "failed", reason: "timeout", attempt: 1 }],
  ["verifying", 7, { status: "failed", reason: "timeout", attempt: 1 }],
  ["rolling_back", 16, { status: "failed", reason: "rollback_failed", attempt: 1 }],
];
for (const [step, minutes, end] of STUCK) {
  test(
    `the target of a robot stuck while ${step} ends ${end.status}, ${end.reason}, after ${end.attempt === 1 ? "one attempt" : `${end.attempt} attempts`}`,
    TIMEOUT,
    async () => {
      await using plane = await startPlane({ at: AT });
      const { robot, id } = await deployUntilStuck(plane, step);
      assert.equal((await targetOf(plane, id, robot.id)).status, step);
      await plane.advance({ minutes });
      assert.deepEqual(await targetOf(plane, id, robot.id), { ...end, waiting_for: null });
      await checkEngine(plane, { ended: true });
    },
  );
}

test("a failed download is retried after 10 s and after 20 s more, then the target fails", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: fail("download_failed") });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "queued", reason: "download_failed", attempt: 1, waiting_for: null });
  await plane.advance({ seconds: 9 });
  assert.equal((await targetOf(plane, id, robot.id)).attempt, 1);
  await plane.advance({ seconds: 6 });
  assert.equal((await targetOf(plane, id, robot.id)).attempt, 2);
  await plane.advance({ seconds: 30 });
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "failed", reason: "download_failed", attempt: 3, waiting_for: null });
  assert.equal((await plane.events(id)).filter((kind) => kind === "deployment.failed").length, 1);
  await checkEngine(plane, { ended: true });
});

test("a download that reports progress does not time out", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: { step_ms: { downloading: 25 * 60_000 } } });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const target_id = (await plane.targets(id)).get(robot.id)?.id ?? "";
  for (let minutes = 5; minutes < 25; minutes += 5) {
    await plane.advance({ minutes: 5 });
    robot.progress(target_id, 1, minutes, 25);
    await plane.settle();
  }
  assert.deepEqual((await plane.targets(id)).get(robot.id)?.progress, { bytes_done: 20, bytes_total: 25 });
  await plane.advance({ minutes: 6 });
  assert.deepEqual(await shown(plane, id), { status: "applied", reason: null });
  await checkEngine(plane, { ended: true });
});

test("a robot that reconnects after its target timed out reports that it already runs the release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: offlineAt("downloading", { downloading: 60_000 }) });
  const release = await plane.release();
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.advance({ minutes: 12 });
  assert.deepEqual(await targetOf(plane, id, robot.id), {
    status: "queued",
    reason: "agent_lost",
    attempt: 1,
    waiting_for: "robot_online",
  });
  await robot.connect();
  await plane.settle();
  assert.deepEqual(await targetOf(plane, id, robot.id), { status: "applied", reason: "already_installed", attempt: 2, waiting_for: null });
  assert.deepEqual(await shown(plane, id), { status: "applied", reason: "already_installed" });
  await checkEngine(plane, { ended: true });
});
