import assert from "node:assert/strict";
import { test } from "node:test";
import { isTerminal } from "@roamfleet/protocol";
import type { Rollout } from "@roamfleet/protocol/routes";
import { type SimulatedRobot, slow, stuckAt } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 240_000 };
const AT = "2030-01-01T00:00:00Z";

async function rollOut(plane: Harness, fleet_id: string, rollout: Rollout): Promise<string> {
  const { id } = await plane.deploy(await plane.release(), { fleet_id }, { rollout });
  await plane.settle();
  return id;
}

const eventsOf = async (plane: Harness, id: string) =>
  (await plane.api.listDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } })).items;

/**
 * Returns the maximum number of robots that were updating at the same time, computed from the events. Counts only robots for which `of`
 * returns true.
 */
async function mostAtOnce(plane: Harness, id: string, of: (robot_id: string) => boolean = () => true): Promise<number> {
  const at_it = new Set<string>();
  let most = 0;
  for (const { target_status, robot_id } of await eventsOf(plane, id)) {
    if (robot_id === null || target_status === null || !of(robot_id)) continue;
    if (isTerminal(target_status) || target_status === "queued") at_it.delete(robot_id);
    else if (target_status !== "pending") at_it.add(robot_id);
    most = Math.max(most, at_it.size);
  }
  return most;
}

test("updates at most max_parallel robots concurrently, not counting offline robots", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const robots = await plane.enrollRobots(9, { fleet_id, behavior: slow(1_000) });
  for (const robot of robots.slice(0, 4)) await robot.disconnect();
  await plane.settle();
  const id = await rollOut(plane, fleet_id, { max_parallel: 2 });
  const waits = [...(await plane.targets(id)).values()].map(({ waiting_for }) => waiting_for);
  assert.ok(waits.includes("slot"));
  await plane.advance({ seconds: 25 });
  assert.equal((await plane.deployment(id)).counts.applied, 5);
  for (const robot of robots.slice(0, 4)) await robot.connect();
  await plane.advance({ seconds: 20 });
  assert.equal((await plane.deployment(id)).status, "applied");
  assert.equal(await mostAtOnce(plane, id), 2);
  await checkEngine(plane, { ended: true });
});

test("at most max_unavailable robots of each group are unavailable during a rollout", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const inZone = (zone: string, count: number) => plane.enrollRobots(count, { fleet_id, labels: { zone }, behavior: slow(1_000) });
  const [north, south] = [await inZone("north", 6), await inZone("south", 6)];
  const [away, unwell] = [north[0] as SimulatedRobot, south[0] as SimulatedRobot];
  await away.disconnect();
  unwell.sendHealth({ status: "error" });
  await plane.settle();
  const id = await rollOut(plane, fleet_id, { max_unavailable: { percent: 34, group_by: "label:zone" } });
  await plane.advance({ seconds: 60 });
  const { counts } = await plane.deployment(id);
  assert.deepEqual([counts.applied, counts.queued], [11, 1]);
  // The limit is a third of six robots: two. In the north, one robot is already offline. In the south, one is unhealthy and is not counted
  // twice.
  const members = (robots: readonly SimulatedRobot[]) => (robot_id: string) => robots.some((robot) => robot.id === robot_id);
  assert.equal(await mostAtOnce(plane, id, members(north)), 1);
  assert.ok((await mostAtOnce(plane, id, members(south))) <= 2);
  assert.equal(await mostAtOnce(plane, id, members(south.slice(1))), 1);
  await away.connect();
  await plane.advance({ seconds: 40 });
  await checkEngine(plane, { ended: true });
});

test("max_unavailable does not block groups whose robots are all offline or unhealthy", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const inZone = (zone: string, count: number) => plane.enrollRobots(count, { fleet_id, labels: { zone, canary: "yes" } });
  const [north] = [await inZone("north", 3), await inZone("south", 2)];
  const [unwell] = await inZone("west", 1);
  await plane.enrollRobots(1, { fleet_id, labels: { zone: "east" } });
  for (const robot of north) await robot.disconnect();
  unwell?.sendHealth({ status: "error" });
  await plane.settle();
  const waves: Rollout["waves"] = [{ labels: { canary: "yes" } }];
  const id = await rollOut(plane, fleet_id, { waves, max_unavailable: { count: 1, group_by: "label:zone" } });
  await plane.advance({ seconds: 60 });
  const targets = [...(await plane.targets(id)).values()];
  const of_north = targets.filter(({ robot_id }) => north.some((robot) => robot.id === robot_id));
  assert.deepEqual(
    of_north.map(({ status, waiting_for }) => `${status} ${waiting_for}`),
    Array.from(north, () => "queued robot_online"),
  );
  assert.equal((await plane.deployment(id)).counts.applied, 4);
  // The robots still count as one group: after they connect, at most one updates at a time.
  for (const robot of north) robot.behave(slow(1_000));
  for (const robot of north) await robot.connect();
  await plane.advance({ seconds: 60 });
  assert.equal((await plane.deployment(id)).status, "applied");
  assert.equal(await mostAtOnce(plane, id, (robot_id) => north.some((robot) => robot.id === robot_id)), 1);
  await checkEngine(plane, { ended: true });
});

const WINDOW = { cron: "10 0 * * *", time_zone: "UTC", duration_minutes: 5 };
const NEXT_DAY = { cron: "0,10 0 * * *", time_zone: "UTC", duration_minutes: 2 };

test("robots download a release before their maintenance window and install it within the window", TIMEOUT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:08:00Z" });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id }, { rollout: { window: WINDOW } });
  await plane.advance({ seconds: 60 });
  const [target] = [...(await plane.targets(id)).values()];
  assert.deepEqual([target?.status, target?.waiting_for, target?.attempt], ["staged", "window", 1]);
  await plane.advance({ seconds: 59 });
  assert.equal((await plane.deployment(id)).status, "in_progress");
  await plane.advance({ seconds: 2 });
  assert.equal((await plane.deployment(id)).status, "applied");
  const installing = (await eventsOf(plane, id)).find(({ target_status }) => target_status === "installing");
  assert.ok((installing?.at ?? "") >= "2030-01-01T00:10:00.000Z");
  await checkEngine(plane, { ended: true });
});

test("a robot that missed its maintenance window installs in the next window within the same attempt", TIMEOUT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:03:00Z" });
  const robot = await plane.enrollRobot({ behavior: stuckAt("staged") });
  // Windows at 00:00, 00:10, and on the next day.
  const { id } = await plane.deploy(
    await plane.release(),
    { robot_id: robot.id },
    { rollout: { window: NEXT_DAY, expires_at: "2030-01-05T00:00:00Z" } },
  );
  await plane.advance({ minutes: 20 });
  robot.behave({});
  await robot.restart();
  await plane.settle();
  const [target] = [...(await plane.targets(id)).values()];
  assert.deepEqual([target?.status, target?.waiting_for, target?.attempt], ["staged", "window", 1]);
  const policy = robot.received.at(-1)?.apps.main?.policy;
  assert.deepEqual([policy?.install_from, policy?.install_until], [Date.parse("2030-01-02T00:00:00Z"), Date.parse("2030-01-02T00:02:00Z")]);
  await plane.api.cancelDeployment({ params: { id } });
  await plane.advance({ seconds: 90 });
  await checkEngine(plane, { ended: true });
});
