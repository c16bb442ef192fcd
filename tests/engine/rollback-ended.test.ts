import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "@roamfleet/sdk";
import { rollBack, slow } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };

const rollback = async (plane: Harness, id: string) => (await plane.api.rollBackDeployment({ params: { id } })).data;
const retry = async (plane: Harness, id: string, body = {}) => (await plane.api.retryDeployment({ params: { id }, body })).data;
const isConflict = (error: unknown): boolean => error instanceof ApiError && error.status === 409;
const allEvents = async (plane: Harness, id: string) =>
  (await plane.api.listDeploymentEvents({ params: { id }, query: { include: "targets" } })).items;

test("rolling back an ended deployment returns each robot to its previous release in a new deployment", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const robots = await plane.enrollRobots(7, { fleet_id });
  const [one, another, third, fresh, newer, under_way, tried] = robots;
  assert.ok(one && another && third && fresh && newer && under_way && tried);
  const [first, second, release, later, bad] = await Promise.all(Array.from({ length: 5 }, () => plane.release()));
  assert.ok(first && second && release && later && bad);
  for (const robot of [one, another, newer, under_way, tried]) await plane.deploy(first, { robot_id: robot.id });
  await plane.deploy(second, { robot_id: third.id });
  await plane.settle();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  assert.equal((await plane.deployment(id)).status, "applied");
  await plane.deploy(later, { robot_id: newer.id });
  under_way.behave(slow(600_000), later.id);
  await plane.deploy(later, { robot_id: under_way.id });
  tried.behave(rollBack("crash_loop"), bad.id);
  await plane.deploy(bad, { robot_id: tried.id });
  await plane.settle();
  assert.equal(tried.runs(), release.tag, "the later release was rolled back");
  await third.disconnect();
  await plane.settle();
  const [ended, events] = [await plane.deployment(id), await allEvents(plane, id)];

  const back = await rollback(plane, id);
  assert.notEqual(back.id, id);
  assert.deepEqual([back.rollback_of, back.target_kind, back.fleet_id, back.release_id], [id, "fleet", fleet_id, first.id]);
  assert.deepEqual([back.status, back.counts.total], ["queued", 5], "robots with a newer release, or a newer deployment, are not targets");
  await plane.settle();
  assert.equal((await plane.deployment(back.id)).status, "in_progress");
  assert.deepEqual(
    robots.map((robot) => robot.runs()),
    [first.tag, first.tag, release.tag, undefined, later.tag, release.tag, first.tag],
  );
  await third.connect();
  await plane.advance({ minutes: 1 });
  assert.equal(third.runs(), second.tag);
  assert.equal((await plane.deployment(back.id)).status, "applied");
  assert.equal((await plane.targets(back.id)).get(fresh.id)?.status, "applied", "running nothing is the expected result");
  const shown = (await plane.api.getRobot({ params: { id: fresh.id } })).data;
  assert.deepEqual([shown.current_release, shown.desired_release], [null, null]);
  assert.deepEqual([await plane.deployment(id), await allEvents(plane, id)], [ended, events], "the first deployment stays unchanged");
  await checkEngine(plane);

  // Roll back the deployment that the first rollback created.
  const forward = await rollback(plane, back.id);
  assert.deepEqual([forward.rollback_of, forward.release_id, forward.counts.total], [back.id, release.id, 5]);
  await plane.settle();
  assert.equal((await plane.deployment(forward.id)).status, "applied");
  for (const robot of [one, another, third, fresh, tried]) assert.equal(robot.runs(), release.tag);
  await assert.rejects(rollback(plane, back.id), isConflict, "no robot runs that deployment's release");
  await checkEngine(plane);
});

test("the rollback of a first installation removes the app from every robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  const back = await rollback(plane, id);
  assert.deepEqual([back.target_kind, back.robot_id, back.release_id], ["robot", robot.id, release.id]);
  await plane.settle();
  assert.equal(robot.runs(), undefined);
  assert.equal((await plane.deployment(back.id)).status, "applied");
  const again = await rollback(plane, back.id);
  await plane.settle();
  assert.equal((await plane.deployment(again.id)).status, "applied");
  assert.equal(robot.runs(), release.tag);
  await checkEngine(plane, { ended: true });
});

test("a rollback can be rolled back while it is running", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [here, away] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(here && away);
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await away.disconnect();
  await plane.settle();
  const back = await rollback(plane, id);
  await plane.settle();
  assert.equal(here.runs(), undefined);
  await rollback(plane, back.id);
  await plane.settle();
  assert.equal(here.runs(), release.tag);
  const { status, counts } = await plane.deployment(back.id);
  assert.deepEqual([status, counts.rolled_back, counts.cancelled], ["rolled_back", 1, 1]);
  await checkEngine(plane, { ended: true });
});

test("a rollback skips robots that have left the fleet or were removed", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, other_fleet] = [await plane.fleet(), await plane.fleet()];
  const [stays, moves, removed] = await plane.enrollRobots(3, { fleet_id });
  assert.ok(stays && moves && removed);
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await plane.api.updateRobot({ params: { id: moves.id }, body: { fleet_id: other_fleet } });
  await plane.api.deleteRobot({ params: { id: removed.id } });
  const back = await rollback(plane, id);
  assert.equal(back.counts.total, 1);
  await plane.settle();
  assert.deepEqual([stays.runs(), moves.runs()], [undefined, release.tag]);
  await checkEngine(plane, { ended: true });
});

test("a retry deploys only to the robots that failed or rolled back", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: { deployment_expiry_hours: 0.1 } });
  const fleet_id = await plane.fleet();
  const [good, failed, back, expired] = await plane.enrollRobots(4, { fleet_id });
  assert.ok(good && failed && back && expired);
  const [before, release] = [await plane.release(), await plane.release()];
  await plane.deploy(before, { robot_id: back.id });
  await plane.settle();
  failed.behave(rollBack("crash_loop"), release.id);
  back.behave(rollBack("health_check_failed"), release.id);
  await expired.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(release, { fleet_id }, { rollout: { verify_seconds: 7 } });
  await plane.settle();
  await assert.rejects(retry(plane, id), isConflict, "it still waits for a robot");
  await plane.advance({ minutes: 8 });
  assert.equal((await plane.deployment(id)).status, "failed");
  const [ended, events] = [await plane.deployment(id), await allEvents(plane, id)];
  failed.behave({}, release.id);
  back.behave({}, release.id);
  const again = await retry(plane, id);
  assert.deepEqual([again.retry_of, again.release_id, again.counts.total, again.rollout.verify_seconds], [id, release.id, 2, 7]);
  await plane.settle();
  assert.equal((await plane.deployment(again.id)).status, "applied");
  assert.deepEqual([good.runs(), failed.runs(), back.runs(), expired.runs()], [release.tag, release.tag, release.tag, undefined]);
  await assert.rejects(retry(plane, again.id), isConflict, "none of it failed");
  assert.deepEqual([await plane.deployment(id), await allEvents(plane, id)], [ended, events]);
  const with_policy = await retry(plane, id, { rollout: { verify_seconds: 9 } });
  assert.equal(with_policy.rollout.verify_seconds, 9);
  await plane.settle();
  await checkEngine(plane, { ended: true });
});

test("cancelling with rollback reverts robots that are installing, and keeps the release on updated robots", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [quick, installing, downloading, waiting] = await plane.enrollRobots(4, { fleet_id });
  assert.ok(quick && installing && downloading && waiting);
  const [before, release] = [await plane.release(), await plane.release()];
  for (const robot of [quick, installing, downloading]) await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  installing.behave({ step_ms: { installing: 30_000 } }, release.id);
  downloading.behave({ step_ms: { downloading: 600_000 } }, release.id);
  await waiting.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  const cancel = async (mode: "finish" | "rollback") => (await plane.api.cancelDeployment({ params: { id }, body: { mode } })).data;
  assert.equal((await cancel("finish")).status, "cancelling");
  assert.equal((await cancel("rollback")).status, "cancelling", "a rollback may be requested after a cancellation");
  await plane.advance({ minutes: 2 });
  const targets = await plane.targets(id);
  assert.deepEqual(
    [quick, installing, downloading, waiting].map((robot) => `${targets.get(robot.id)?.status} ${targets.get(robot.id)?.reason}`),
    ["applied null", "rolled_back rollback_requested", "cancelled user_cancelled", "cancelled user_cancelled"],
  );
  assert.deepEqual([quick.runs(), installing.runs(), downloading.runs()], [release.tag, before.tag, before.tag]);
  assert.equal((await plane.deployment(id)).status, "cancelled");
  await checkEngine(plane, { ended: true });
});

test("cancelling a fleet deployment with mode rollback stops the fleet from following the release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  for (const modes of [["rollback"], ["finish", "rollback"]] as const) {
    const fleet_id = await plane.fleet();
    const robot = await plane.enrollRobot({ fleet_id });
    const [release, other] = [await plane.release(), await plane.release()];
    const desired = async () => (await plane.api.getFleet({ params: { id: fleet_id } })).data.desired["main"]?.id;
    await plane.deploy(release, { fleet_id });
    await plane.settle();
    await plane.deploy(other, { robot_id: robot.id });
    await plane.settle();
    robot.behave({ step_ms: { installing: 30_000 } }, release.id);
    const { id } = await plane.deploy(release, { fleet_id });
    await plane.settle();
    assert.equal(await desired(), release.id);
    for (const mode of modes) await plane.api.cancelDeployment({ params: { id }, body: { mode } });
    assert.equal(await desired(), undefined, modes.join(" "));
    await plane.advance({ minutes: 2 });
    assert.equal(robot.runs(), other.tag);
  }
  await checkEngine(plane, { ended: true });
});

test("a running rollback accepts a cancellation, but is not stopped by it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [here, gone] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(here && gone);
  const release = await plane.release();
  here.behave({ step_ms: { verifying: 5_000 } }, release.id);
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  await gone.disconnect();
  await plane.settle();
  await rollback(plane, id);
  const { data } = await plane.api.cancelDeployment({ params: { id } });
  assert.equal(data.status, "rolling_back");
  assert.notEqual(data.cancel_requested_at, null);
  await plane.advance({ seconds: 20 });
  assert.equal(here.runs(), undefined);
  await gone.connect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual([gone.runs(), (await plane.deployment(id)).status], [undefined, "rolled_back"]);
  await checkEngine(plane, { ended: true });
});
