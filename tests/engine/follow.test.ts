import assert from "node:assert/strict";
import { test } from "node:test";
import { ignore, rollBack, type SimulatedRobot } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };
const SOON = { deployment_expiry_hours: 0.1 };

const fleetOf = async (plane: Harness, id: string) => (await plane.api.getFleet({ params: { id } })).data;
/** Returns the automatic deployments of a robot, oldest first. */
async function automatic(plane: Harness, robot: SimulatedRobot) {
  const { items } = await plane.api.listDeployments({ query: { robot_id: robot.id } });
  const own = items.filter(({ created_by }) => created_by.type === "system").toReversed();
  return Promise.all(
    own.map(async ({ id, status, release }) => {
      const [first] = (await plane.api.listDeploymentEvents({ params: { id }, query: {} })).items;
      return `${String(first?.data["cause"])} ${release.tag} ${status}`;
    }),
  );
}
async function automaticConfigs(plane: Harness, robot: SimulatedRobot) {
  const { items } = await plane.api.listConfigDeployments({ query: { robot_id: robot.id } });
  return items.filter(({ created_by }) => created_by.type === "system").map(({ status }) => status);
}
/** Returns the value in the robot's config file. */
const speed = async (plane: Harness, robot: SimulatedRobot): Promise<string | undefined> => {
  const { data } = await plane.api.getRobot({ params: { id: robot.id } });
  return data.config_state;
};

test("a fleet's desired release of an app is set by its last applied deployment", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: SOON });
  const fleet_id = await plane.fleet();
  const [robot, away] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(robot && away);
  const [one, two, bad, camera] = [
    await plane.release(),
    await plane.release(),
    await plane.release(),
    await plane.release({ app: "camera" }),
  ];
  assert.deepEqual((await fleetOf(plane, fleet_id)).desired, {});
  await plane.deploy(one, { fleet_id });
  await plane.deploy(camera, { fleet_id });
  await plane.settle();
  assert.deepEqual((await fleetOf(plane, fleet_id)).desired, {
    main: { id: one.id, tag: one.tag },
    camera: { id: camera.id, tag: camera.tag },
  });
  robot.behave(rollBack(), bad.id);
  await plane.deploy(bad, { fleet_id });
  await plane.settle();
  assert.equal((await fleetOf(plane, fleet_id)).desired["main"]?.id, one.id, "a failed deployment changes nothing");
  // Likewise, the fleet's release does not change when an older deployment ends after a newer one.
  await away.disconnect();
  await plane.settle();
  await plane.deploy(bad, { robot_id: robot.id });
  const older = await plane.deploy(two, { fleet_id });
  await plane.settle();
  const newer = await plane.deploy(one, { fleet_id });
  await plane.settle();
  await plane.api.setConfig({ body: { key: "speed", value: 1 } });
  await away.connect();
  await plane.advance({ seconds: 10 });
  assert.deepEqual([(await plane.deployment(older.id)).status, (await plane.deployment(newer.id)).status], ["applied", "applied"]);
  assert.equal((await fleetOf(plane, fleet_id)).desired["main"]?.id, one.id);
  const { id } = await plane.deployConfig({ fleet_id });
  await plane.settle();
  assert.equal((await fleetOf(plane, fleet_id)).config_revision, id);
  // When the fleet's release is rolled back, the fleet gets the release that most robots had before, or none.
  const [applied] = (await plane.api.listDeployments({ query: { fleet_id, release_id: camera.id } })).items;
  await plane.api.rollBackDeployment({ params: { id: applied?.id ?? "" } });
  await plane.settle();
  assert.deepEqual(Object.keys((await fleetOf(plane, fleet_id)).desired), ["main"]);
  assert.deepEqual(await automatic(plane, robot), []);
  assert.deepEqual(await automatic(plane, away), []);
  await checkEngine(plane, { ended: true });
});

test("a new, moved or long-offline robot gets the fleet's release and config within a minute", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, other_id] = [await plane.fleet(), await plane.fleet()];
  const [member, away] = await plane.enrollRobots(2, { fleet_id });
  const moved = await plane.enrollRobot({ fleet_id: other_id });
  assert.ok(member && away);
  const [old, release] = [await plane.release(), await plane.release()];
  await plane.deploy(old, { fleet_id });
  await plane.settle();
  await away.disconnect();
  await plane.settle();
  await plane.api.setConfig({ body: { key: "speed", value: 3 } });
  const deployment = await plane.deploy(release, { fleet_id }, { rollout: { verify_seconds: 5 } });
  const config = await plane.deployConfig({ fleet_id });
  await plane.settle();
  // Stop the server for 30 days. When it restarts, it finds expired deployments.
  await member.disconnect();
  await moved.disconnect();
  await plane.stop();
  await plane.advance({ days: 30 });
  await plane.restart();
  await plane.advance({ seconds: 10 });
  assert.equal((await plane.deployment(deployment.id)).status, "applied");
  assert.equal((await plane.targets(deployment.id)).get(away.id)?.reason, "expired");
  assert.equal((await fleetOf(plane, fleet_id)).config_revision, config.id);

  const fresh = await plane.enrollRobot({ fleet_id });
  await away.connect();
  await member.connect();
  await moved.connect();
  await plane.api.updateRobot({ params: { id: moved.id }, body: { fleet_id } });
  await plane.advance({ minutes: 1 });
  for (const robot of [fresh, moved, away]) {
    assert.equal(robot.runs(), release.tag, robot.id);
    assert.deepEqual(await automatic(plane, robot), [`${robot === away ? "returned" : "joined"} ${release.tag} applied`]);
    assert.deepEqual(await automaticConfigs(plane, robot), ["applied"]);
    assert.equal(await speed(plane, robot), "in_sync");
  }
  assert.deepEqual([await automatic(plane, member), await automaticConfigs(plane, member)], [[], []]);
  const { items } = await plane.api.listDeployments({ query: { robot_id: away.id } });
  assert.deepEqual([items[0]?.target_kind, items[0]?.rollout.verify_seconds], ["robot", 5]);
  for (const robot of [fresh, moved, away]) await robot.restart();
  await plane.advance({ minutes: 1 });
  for (const robot of [fresh, moved, away]) assert.equal((await automatic(plane, robot)).length, 1, "and once");
  await checkEngine(plane, { ended: true });
});

test("a robot on which the fleet's release failed is not retried automatically, but gets the next release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await plane.enrollRobot({ fleet_id });
  const [release, next] = [await plane.release(), await plane.release()];
  await plane.deploy(release, { fleet_id });
  await plane.settle();
  const sick = await plane.enrollRobot({ fleet_id, online: false });
  sick.behave(rollBack("crash_loop"), release.id);
  await sick.connect();
  await plane.advance({ seconds: 30 });
  assert.deepEqual(await automatic(plane, sick), [`joined ${release.tag} failed`]);
  for (let times = 0; times < 3; times += 1) {
    await sick.disconnect();
    await plane.advance({ seconds: 10 });
    await sick.connect();
    await plane.advance({ seconds: 20 });
  }
  assert.equal((await automatic(plane, sick)).length, 1);
  const other_id = await plane.fleet();
  await plane.api.updateRobot({ params: { id: sick.id }, body: { fleet_id: other_id } });
  sick.behave({}, release.id);
  await plane.api.updateRobot({ params: { id: sick.id }, body: { fleet_id } });
  await plane.advance({ seconds: 30 });
  assert.deepEqual(
    await automatic(plane, sick),
    [`joined ${release.tag} failed`, `joined ${release.tag} applied`],
    "a robot that is moved in again gets a new attempt",
  );
  await plane.deploy(next, { fleet_id });
  await plane.settle();
  assert.equal(sick.runs(), next.tag);
  assert.equal((await automatic(plane, sick)).length, 2);
  await checkEngine(plane, { ended: true });
});

test("automatic updates skip robots with follow off, a running deployment or an explicitly deployed release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await plane.enrollRobot({ fleet_id });
  const [release, chosen] = [await plane.release(), await plane.release()];
  await plane.deploy(release, { fleet_id });
  await plane.settle();
  const own_way = await plane.enrollRobot({ fleet_id, online: false });
  await plane.deploy(chosen, { robot_id: own_way.id });
  await own_way.connect();
  await plane.advance({ seconds: 20 });
  await own_way.restart();
  await plane.advance({ seconds: 20 });
  assert.deepEqual([own_way.runs(), await automatic(plane, own_way)], [chosen.tag, []]);
  const busy = await plane.enrollRobot({ fleet_id, online: false });
  busy.behave(ignore, chosen.id);
  const { id } = await plane.deploy(chosen, { robot_id: busy.id });
  await busy.connect();
  await plane.advance({ seconds: 20 });
  assert.deepEqual([(await plane.deployment(id)).status, await automatic(plane, busy)], ["in_progress", []]);

  await plane.api.updateFleet({ params: { id: fleet_id }, body: { follow: false } });
  const later = await plane.enrollRobot({ fleet_id });
  await plane.advance({ minutes: 1 });
  assert.deepEqual([later.runs(), await automatic(plane, later)], [undefined, []]);
  await plane.api.updateFleet({ params: { id: fleet_id }, body: { follow: true } });
  await plane.advance({ minutes: 1 });
  assert.deepEqual([later.runs(), await automatic(plane, later)], [release.tag, [`joined ${release.tag} applied`]]);
  assert.equal(own_way.runs(), chosen.tag);
  await checkEngine(plane);
});

test("a robot that enrolls during a fleet deployment gets the new release when the deployment has ended", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const slow = await plane.enrollRobot({ fleet_id });
  const [old, release] = [await plane.release(), await plane.release()];
  await plane.deploy(old, { fleet_id });
  await plane.settle();
  slow.behave({ step_ms: { verifying: 60_000 } }, release.id);
  await plane.deploy(release, { fleet_id });
  await plane.settle();
  const fresh = await plane.enrollRobot({ fleet_id });
  await plane.advance({ seconds: 20 });
  assert.equal(fresh.runs(), old.tag);
  await plane.advance({ seconds: 50 });
  assert.equal(fresh.runs(), release.tag);
  assert.deepEqual(await automatic(plane, fresh), [`joined ${old.tag} applied`, `joined ${release.tag} applied`]);
  await checkEngine(plane, { ended: true });
});

test("updates every robot to the fleet's release when many reconnect concurrently", TIMEOUT, async () => {
  const ROBOTS = 40;
  await using plane = await startPlane({ at: AT, limits: SOON });
  const fleet_id = await plane.fleet();
  const stays = await plane.enrollRobot({ fleet_id });
  const robots = await plane.enrollRobots(ROBOTS, { fleet_id });
  const release = await plane.release();
  for (const robot of robots) await robot.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.advance({ minutes: 7 });
  assert.equal((await plane.deployment(id)).status, "applied");
  assert.equal(stays.runs(), release.tag);
  await Promise.all(robots.map((robot) => robot.connect()));
  await plane.advance({ minutes: 1 });
  assert.deepEqual(new Set(robots.map((robot) => robot.runs())), new Set([release.tag]));
  assert.equal((await automatic(plane, robots[ROBOTS - 1]!)).length, 1);
  await checkEngine(plane, { ended: true });
});
