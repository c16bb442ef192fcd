import assert from "node:assert/strict";
import { test } from "node:test";
import { slow } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

const shown = async (plane: Harness, id: string, robot_id: string) => {
  const target = (await plane.targets(id)).get(robot_id);
  return { status: target?.status, reason: target?.reason, waiting_for: target?.waiting_for };
};

for (const [step, seconds] of [
  ["downloading", 2],
  ["staged", 12],
] as const) {
  test(`a newer deployment cancels an older one whose robot is ${step}`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const robot = await plane.enrollRobot();
    const [old, newer] = [await plane.release(), await plane.release()];
    robot.behave(slow(10_000), old.id);
    const first = await plane.deploy(old, { robot_id: robot.id });
    await plane.settle();
    await plane.advance({ seconds });
    assert.deepEqual(await shown(plane, first.id, robot.id), { status: step, reason: null, waiting_for: null });
    const second = await plane.deploy(newer, { robot_id: robot.id });
    await plane.settle();
    assert.deepEqual(await shown(plane, first.id, robot.id), { status: "cancelled", reason: "superseded", waiting_for: null });
    assert.deepEqual(await shown(plane, second.id, robot.id), { status: "applied", reason: null, waiting_for: null });
    assert.equal((await plane.deployment(first.id)).reason, "superseded");
    assert.equal(robot.runs(), newer.tag);
    await plane.advance({ minutes: 5 });
    await checkEngine(plane, { ended: true });
  });
}

for (const [step, seconds] of [
  ["installing", 22],
  ["verifying", 32],
] as const) {
  test(`a newer deployment waits for an older one whose robot is ${step}`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const robot = await plane.enrollRobot();
    const [old, newer] = [await plane.release(), await plane.release()];
    robot.behave(slow(10_000), old.id);
    const first = await plane.deploy(old, { robot_id: robot.id });
    await plane.settle();
    await plane.advance({ seconds });
    const second = await plane.deploy(newer, { robot_id: robot.id });
    await plane.settle();
    assert.deepEqual(await shown(plane, first.id, robot.id), { status: step, reason: null, waiting_for: null });
    assert.deepEqual(await shown(plane, second.id, robot.id), { status: "queued", reason: null, waiting_for: "previous_deployment" });
    await plane.advance({ seconds: 30 });
    assert.equal((await plane.deployment(first.id)).status, "applied");
    assert.equal((await plane.deployment(second.id)).status, "applied");
    assert.equal(robot.runs(), newer.tag);
    await checkEngine(plane, { ended: true });
  });
}

test("only the newest of several deployments that wait for an offline robot reaches it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  const releases = [await plane.release(), await plane.release(), await plane.release()];
  const made = [];
  for (const release of releases) made.push(await plane.deploy(release, { robot_id: robot.id }));
  await plane.advance({ minutes: 1 });
  for (const { id } of made)
    assert.deepEqual(await shown(plane, id, robot.id), { status: "queued", reason: null, waiting_for: "robot_online" });
  await robot.connect();
  await plane.settle();
  const ends = await Promise.all(made.map(async ({ id }) => (await plane.deployment(id)).status));
  assert.deepEqual(ends, ["cancelled", "cancelled", "applied"]);
  const asked = robot.received.flatMap(({ apps }) => apps.main?.deployment_id ?? []);
  assert.deepEqual([...new Set(asked)], [made.at(-1)?.id]);
  assert.equal(robot.runs(), releases.at(-1)?.tag);
  await plane.advance({ minutes: 1 });
  assert.equal(robot.runs(), releases.at(-1)?.tag, "no older one follows it");
  await checkEngine(plane, { ended: true });
});

test("a scheduled deployment supersedes older deployments only at its scheduled time", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [old, newer] = [await plane.release(), await plane.release()];
  robot.behave(slow(10_000), old.id);
  const first = await plane.deploy(old, { robot_id: robot.id });
  const second = await plane.deploy(newer, { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:05:00Z" });
  await plane.advance({ minutes: 1 });
  assert.equal((await plane.deployment(first.id)).status, "applied");
  assert.equal((await plane.deployment(second.id)).status, "scheduled");
  await plane.advance({ minutes: 5 });
  assert.equal(robot.runs(), newer.tag);
  await checkEngine(plane, { ended: true });
});

test("a newer fleet deployment supersedes an older one only on the robots that both target", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [first, second] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(first !== undefined && second !== undefined);
  const [old, newer] = [await plane.release(), await plane.release()];
  for (const robot of [first, second]) robot.behave(slow(10_000), old.id);
  const whole = await plane.deploy(old, { fleet_id });
  await plane.settle();
  const one = await plane.deploy(newer, { robot_id: first.id });
  await plane.advance({ minutes: 2 });
  assert.deepEqual(await shown(plane, whole.id, first.id), { status: "cancelled", reason: "superseded", waiting_for: null });
  assert.deepEqual(await shown(plane, whole.id, second.id), { status: "applied", reason: null, waiting_for: null });
  assert.equal((await plane.deployment(whole.id)).status, "applied");
  assert.equal((await plane.deployment(one.id)).status, "applied");
  assert.deepEqual([first.runs(), second.runs()], [newer.tag, old.tag]);
  await checkEngine(plane, { ended: true });
});

test("a target of a later wave is cancelled if its robot has meanwhile applied a newer deployment", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const robots = await plane.enrollRobots(2, { fleet_id });
  const [old, newer] = [await plane.release(), await plane.release()];
  const whole = await plane.deploy(old, { fleet_id }, { rollout: { waves: [{ count: 1, soak_seconds: 60 }] } });
  await plane.settle();
  const robot = robots.find((one) => one.runs() === undefined);
  assert.ok(robot !== undefined);
  // The robot's target in the older deployment waits for its wave, so the newer deployment does not cancel it.
  const one = await plane.deploy(newer, { robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.deployment(one.id)).status, "applied");
  assert.deepEqual(await shown(plane, whole.id, robot.id), { status: "pending", reason: null, waiting_for: null });
  await plane.advance({ minutes: 2 });
  assert.deepEqual(await shown(plane, whole.id, robot.id), { status: "cancelled", reason: "superseded", waiting_for: null });
  assert.equal(robot.runs(), newer.tag);
  await checkEngine(plane, { ended: true });
});

test("deployments of different apps to the same robot do not affect each other", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [main, camera, worse] = [await plane.release(), await plane.release({ app: "camera" }), await plane.release({ app: "camera" })];
  robot.behave(slow(60_000), main.id);
  robot.behave({ failure: { at: "verifying", reason: "crash_loop" } }, worse.id);
  const slow_one = await plane.deploy(main, { robot_id: robot.id });
  const quick = await plane.deploy(camera, { robot_id: robot.id });
  await plane.settle();
  assert.deepEqual([(await plane.deployment(slow_one.id)).status, (await plane.deployment(quick.id)).status], ["in_progress", "applied"]);
  const bad = await plane.deploy(worse, { robot_id: robot.id });
  await plane.settle();
  const { status, reason } = await plane.deployment(bad.id);
  assert.deepEqual({ status, reason }, { status: "rolled_back", reason: "crash_loop" });
  await plane.advance({ minutes: 5 });
  assert.equal((await plane.deployment(slow_one.id)).status, "applied");
  assert.deepEqual([robot.runs("main"), robot.runs("camera")], [main.tag, camera.tag]);
  await checkEngine(plane, { ended: true });
});
