import assert from "node:assert/strict";
import { test } from "node:test";
import { stuckAt } from "@roamfleet/swarm";
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

test("cancel: stops the robot's previous attempt while the next one is queued", TIMEOUT, async () => {
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

test("cancel: a robot that began to install before the server knew it ends applied", TIMEOUT, async () => {
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

test("cancel: further progress reports do not extend the timeout", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behaviour: stuckAt("downloading") });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const target_id = (await plane.targets(id)).get(robot.id)?.id ?? "";
  await cancel(plane, id);
  robot.progress(target_id, 1, 1, 2);
  await plane.advance({ seconds: 70 });
  assert.deepEqual(await shown(plane, id), CANCELLED);
  await checkEngine(plane, { ended: true });
});
