import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { isAtLeast } from "../harness/log-level.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 120_000 };

const countRow = row({ count: int });
/** Resolves when a backend of this test's database waits for a row lock. */
const untilOneWaits = (plane: Harness, who: string): Promise<true> =>
  plane.until(`${who} to wait for a row`, async () => {
    const { count } = await plane.db.one(
      sql(countRow)`select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    return count > 0 && true;
  });

const targetOf = async (plane: Harness, deployment_id: string, robot_id: string) => {
  const target = (await plane.targets(deployment_id)).get(robot_id);
  return [target?.status, target?.reason];
};

test("the removal of a robot does not deadlock with the dispatch of its deployment", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  robot.behave({ step_ms: { downloading: 60_000 } }, release.id);
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.until("the robot to fetch it", async () => (await targetOf(plane, id, robot.id))[0] === "downloading");
  let removed: Promise<unknown> | undefined;
  await plane.db.transaction(async (tx) => {
    // Lock rows in the same order as dispatch: first the deployment, then the robot.
    await tx.run(sql`select from deployment where id = ${id} for update`);
    removed = plane.api.deleteRobot({ params: { id: robot.id } });
    await untilOneWaits(plane, "the removal");
    await tx.run(sql`select from robot where id = ${robot.id} for share nowait`);
  });
  await removed;
  assert.deepEqual(await targetOf(plane, id, robot.id), ["cancelled", "robot_removed"]);
  await checkEngine(plane, { ended: true });
});

test("a target that is dispatched while its robot is being removed ends with reason robot_removed", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  robot.behave({ step_ms: { downloading: 60_000 } }, release.id);
  let removed: Promise<unknown> | undefined;
  let id = "";
  await plane.db.transaction(async (tx) => {
    // Lock the robot like dispatch, with a shared lock. The removal waits for this lock after it has found no running targets.
    await tx.run(sql`select from robot where id = ${robot.id} for share`);
    removed = plane.api.deleteRobot({ params: { id: robot.id } });
    await untilOneWaits(plane, "the removal");
    ({ id } = await plane.deploy(release, { robot_id: robot.id }));
    await plane.until("the robot to fetch it", async () => (await targetOf(plane, id, robot.id))[0] === "downloading");
  });
  await removed;
  assert.deepEqual(await targetOf(plane, id, robot.id), ["cancelled", "robot_removed"]);
  await checkEngine(plane, { ended: true });
});

test("every target of a fleet deployment ends when robots are removed during the dispatch", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robots = await plane.enrollRobots(12);
  const fleet_id = await plane.homeFleet();
  const releases = await Promise.all([plane.release(), plane.release(), plane.release()]);
  const leaving = robots.filter((_, index) => index % 2 === 0);
  const deployed = releases.map((release) => plane.deploy(release, { fleet_id }));
  await Promise.all(leaving.map(({ id }) => plane.api.deleteRobot({ params: { id } })));
  for (const { id } of await Promise.all(deployed)) {
    await plane.until("every target to end", async () => {
      const { total, applied, failed, rolled_back, cancelled } = (await plane.deployment(id)).counts;
      return total === applied + failed + rolled_back + cancelled;
    });
  }
  assert.ok(
    !plane.logged.some((line) => isAtLeast("error", line)),
    JSON.stringify(plane.logged.filter((line) => isAtLeast("error", line))),
  );
  await checkEngine(plane, { ended: true });
});

test("a release that only a removed robot ran can be deleted", TIMEOUT, async () => {
  await using plane = await startPlane();
  const [robot, other] = await plane.enrollRobots(2);
  assert.ok(robot && other);
  const [release, kept] = [await plane.release(), await plane.release()];
  await plane.deploy(release, { robot_id: robot.id });
  await plane.deploy(kept, { robot_id: other.id });
  await plane.settle();
  const remove = (id: string) => plane.api.deleteRelease({ params: { id } });
  await assert.rejects(remove(release.id), /is in use/);
  await plane.api.deleteRobot({ params: { id: robot.id } });
  await remove(release.id);
  await assert.rejects(remove(kept.id), /is in use/);
});
