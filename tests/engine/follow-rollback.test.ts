import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack } from "@roamfleet/swarm/testing";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };

const rollback = async (plane: Harness, id: string) => (await plane.api.rollBackDeployment({ params: { id } })).data;
const desired = async (plane: Harness, id: string) => (await plane.api.getFleet({ params: { id } })).data.desired["main"]?.id;

/**
 * Creates a fleet whose robots ran `good`, now run `bad`, and automatically follow the fleet's release. Also returns the deployment of
 * `bad`.
 */
async function fleetWithBadRelease(plane: Harness) {
  const fleet_id = await plane.fleet();
  const [one, two] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(one && two);
  const [good, bad] = [await plane.release(), await plane.release()];
  await plane.deploy(good, { fleet_id });
  await plane.settle();
  const { id } = await plane.deploy(bad, { fleet_id });
  await plane.settle();
  assert.equal(await desired(plane, fleet_id), bad.id);
  return { fleet_id, one, two, good, bad, id };
}

test("a fleet stops following a release when its rollback starts, even if the rollback fails", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, one, two, good, bad, id } = await fleetWithBadRelease(plane);
  await two.disconnect();
  one.behave(rollBack("crash_loop"), good.id);
  const back = await rollback(plane, id);
  assert.equal(await desired(plane, fleet_id), undefined, "immediately after the start of the rollback");
  const during = await plane.enrollRobot({ fleet_id });
  await plane.advance({ minutes: 2 });
  assert.equal(during.runs(), undefined);
  await two.connect();
  await plane.advance({ minutes: 2 });
  assert.equal((await plane.deployment(back.id)).status, "failed", "one robot refused the previous release");
  const after = await plane.enrollRobot({ fleet_id });
  await plane.advance({ minutes: 2 });
  assert.deepEqual([after.runs(), await desired(plane, fleet_id)], [undefined, undefined]);
  assert.equal(one.runs(), bad.tag);
  await checkEngine(plane, { ended: true });
});

test("robots that enroll after a rollback of the fleet's release get the previous release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, good, id } = await fleetWithBadRelease(plane);
  await rollback(plane, id);
  await plane.settle();
  assert.equal(await desired(plane, fleet_id), good.id);
  const later = await plane.enrollRobot({ fleet_id });
  await plane.advance({ minutes: 2 });
  assert.equal(later.runs(), good.tag);
  await checkEngine(plane, { ended: true });
});

test("an automatic deployment that was not dispatched is cancelled when its release is rolled back", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, one, good, id } = await fleetWithBadRelease(plane);
  // Disconnect the robot after its automatic deployment is created and before that deployment is dispatched.
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.count_active > 0 and new.created_by ->> 'type' = 'system' then raise exception 'planned: this dispatch fails'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment for each row execute function test_fault()`);
  const late = await plane.enrollRobot({ fleet_id });
  await plane.settle();
  one.behave(rollBack("crash_loop"), good.id);
  await rollback(plane, id);
  await plane.db.run(sql`drop trigger test_fault on deployment`);
  await plane.advance({ minutes: 3 });
  assert.equal(late.runs(), undefined);
  const { items } = await plane.api.listDeployments({ query: { robot_id: late.id } });
  assert.deepEqual(
    items.map(({ created_by, status, reason }) => [created_by.type, status, reason]),
    [["system", "cancelled", "rollback_requested"]],
  );
  await checkEngine(plane, { ended: true });
});

for (const on_failure of ["stop", "rollback"] as const)
  test(
    `a fleet stops following a release when its deployment exceeds the failure threshold with policy ${on_failure}`,
    TIMEOUT,
    async () => {
      await using plane = await startPlane({ at: AT });
      const { fleet_id, bad } = await fleetWithBadRelease(plane);
      const sick = await plane.enrollRobot({ fleet_id, online: false });
      sick.behave(rollBack("crash_loop"), bad.id);
      await plane.deploy(bad, { fleet_id }, { rollout: { failure_threshold: { count: 0 }, on_failure } });
      await sick.connect();
      await plane.advance({ minutes: 3 });
      assert.equal(await desired(plane, fleet_id), undefined);
      const later = await plane.enrollRobot({ fleet_id });
      await plane.advance({ minutes: 2 });
      assert.equal(later.runs(), undefined);
      await checkEngine(plane, { ended: true });
    },
  );

test("a fleet keeps following its release when a deployment of another release is rolled back", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, one, bad: followed } = await fleetWithBadRelease(plane);
  const next = await plane.release();
  one.behave({ step_ms: { verifying: 60_000 } }, next.id);
  const { id } = await plane.deploy(next, { fleet_id });
  await plane.settle();
  await rollback(plane, id);
  await plane.advance({ minutes: 3 });
  assert.equal((await plane.deployment(id)).status, "rolled_back");
  assert.equal(await desired(plane, fleet_id), followed.id);
  await checkEngine(plane, { ended: true });
});

test("a rollback without a previous release is shown as the removal of the release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  const back = await rollback(plane, id);
  await plane.settle();
  const target = (await plane.targets(back.id)).get(robot.id);
  assert.deepEqual([target?.status, target?.removed], ["applied", true]);
  const { items } = await plane.api.listDeploymentEvents({ params: { id: back.id }, query: { include: "targets" } });
  assert.equal(items.find(({ kind }) => kind === "target.applied")?.message, "release of main removed; the app no longer runs");
  const timeline = (await plane.api.listRobotTimeline({ params: { id: robot.id } })).items;
  assert.ok(timeline.some(({ summary }) => summary === "Release of main removed; the app no longer runs"));
  assert.equal((await plane.targets(id)).get(robot.id)?.removed, false);

  // The removal is shown in the same way while the deployment is still running on another robot.
  const fleet_id = await plane.fleet();
  const [fast, slow] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(fast && slow);
  slow.behave({ step_ms: { downloading: 600_000 } }, release.id);
  const running = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await rollback(plane, running.id);
  await plane.advance({ minutes: 3 });
  const removed = (await plane.targets(running.id)).get(fast.id);
  assert.deepEqual([removed?.status, removed?.removed], ["rolled_back", true]);
  assert.equal((await plane.targets(running.id)).get(slow.id)?.removed, false);
  await checkEngine(plane, { ended: true });
});

for (const [step, ends] of [
  ["downloading", ["cancelled", "superseded"]],
  ["verifying", ["applied", null]],
] as const)
  test(`a robot that is ${step} the fleet's old release gets the new one without reconnecting`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const fleet_id = await plane.fleet();
    const one = await plane.enrollRobot({ fleet_id });
    const [old, newer] = [await plane.release(), await plane.release()];
    await plane.deploy(old, { fleet_id });
    await plane.settle();
    one.behave({ step_ms: { verifying: 60_000 } }, newer.id);
    await plane.deploy(newer, { fleet_id });
    await plane.settle();
    const late = await plane.enrollRobot({ fleet_id, online: false });
    late.behave({ step_ms: { [step]: 120_000 } }, old.id);
    await late.connect();
    await plane.advance({ seconds: 90 });
    assert.equal(await desired(plane, fleet_id), newer.id);
    await plane.advance({ seconds: 60 });
    assert.equal(late.runs(), newer.tag);
    const { items } = await plane.api.listDeployments({ query: { robot_id: late.id } });
    assert.deepEqual(
      items.map(({ release_id, status, reason }) => [release_id, status, reason]),
      [
        [newer.id, "applied", null],
        [old.id, ...ends],
      ],
    );
    await checkEngine(plane, { ended: true });
  });
