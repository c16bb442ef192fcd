import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

test("a scheduled deployment is dispatched once at its time, across a server restart", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  const { id, status, counts, scheduled_at, expires_at } = await plane.deploy(
    release,
    { robot_id: robot.id },
    { scheduled_at: "2030-01-01T00:20:00Z" },
  );
  assert.deepEqual(
    { status, scheduled_at, expires_at },
    { status: "scheduled", scheduled_at: "2030-01-01T00:20:00.000Z", expires_at: null },
  );
  assert.equal(counts.total, 0);
  const received = robot.received.length;
  await plane.advance({ minutes: 10 });
  await plane.restart();
  await plane.advance({ minutes: 9, seconds: 59 });
  assert.deepEqual(
    robot.received.filter(({ apps }) => apps.main !== undefined),
    [],
  );
  assert.deepEqual(await plane.events(id), ["deployment.scheduled"]);

  await plane.advance({ seconds: 1 });
  const asked = robot.received.slice(received).filter(({ apps }) => apps.main?.deployment_id === id);
  assert.equal(asked.length, 1, "dispatched exactly once, in the scheduled second");
  assert.deepEqual(asked[0]?.apps.main?.release?.id, release.id);
  assert.equal((await plane.deployment(id)).status, "applied");
  await plane.restart();
  await plane.advance({ minutes: 10 });
  assert.deepEqual(await plane.events(id), ["deployment.scheduled", "deployment.queued", "deployment.in_progress", "deployment.applied"]);
  await checkEngine(plane, { ended: true });
});

test("a deployment that became due while the server was down is dispatched after the restart", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:01:00Z" });
  await robot.disconnect();
  await plane.stop();
  await plane.advance({ minutes: 5 });
  await plane.restart();
  await robot.connect();
  await plane.settle();
  assert.equal((await plane.deployment(id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("of several scheduled deployments that start in one batch, the one with the latest time wins", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [later, earlier] = [await plane.release(), await plane.release()];
  const last = await plane.deploy(later, { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:02:00Z" });
  const first = await plane.deploy(earlier, { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:01:00Z" });
  await robot.disconnect();
  await plane.stop();
  await plane.advance({ minutes: 5 });
  await plane.restart();
  await plane.settle();
  await robot.connect();
  await plane.settle();
  assert.equal(robot.runs(), later.tag);
  assert.equal((await plane.deployment(last.id)).status, "applied");
  const { status, reason } = await plane.deployment(first.id);
  assert.deepEqual([status, reason], ["cancelled", "superseded"]);
  await checkEngine(plane, { ended: true });
});

test("a deployment scheduled in the past is dispatched immediately, and its event gives the reason", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id }, { scheduled_at: "2029-12-31T23:00:00Z" });
  await plane.settle();
  const [first] = (await plane.api.listDeploymentEvents({ params: { id } })).items;
  assert.equal(first?.kind, "deployment.queued");
  assert.equal(first?.message, "queued immediately: its start time 2029-12-31T23:00:00.000Z has passed");
  assert.equal((await plane.deployment(id)).status, "applied");
});

test("the robots of a scheduled fleet deployment are selected at the scheduled time", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [early] = await plane.enrollRobots(1, { fleet_id });
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id }, { scheduled_at: "2030-01-01T00:02:00Z" });
  await plane.advance({ minutes: 1 });
  const [late] = await plane.enrollRobots(1, { fleet_id });
  await plane.advance({ minutes: 2 });
  assert.deepEqual([...(await plane.targets(id)).keys()].toSorted(), [early?.id, late?.id].toSorted());
  assert.equal((await plane.deployment(id)).counts.applied, 2);
  await checkEngine(plane, { ended: true });
});

test("a scheduled deployment to a fleet without robots ends at its time with reason no_targets", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const release = await plane.release();
  const now = await plane.deploy(release, { fleet_id });
  const later = await plane.deploy(release, { fleet_id }, { scheduled_at: "2030-01-01T00:01:00Z" });
  assert.deepEqual([now.status, now.reason, later.status], ["cancelled", "no_targets", "scheduled"]);
  await plane.advance({ minutes: 1 });
  const { status, reason, finished_at } = await plane.deployment(later.id);
  assert.deepEqual({ status, reason, finished_at }, { status: "cancelled", reason: "no_targets", finished_at: "2030-01-01T00:01:00.000Z" });
  await checkEngine(plane, { ended: true });
});

test("a scheduled deployment that is cancelled never reaches a robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:01:00Z" });
  const { data } = await plane.api.cancelDeployment({ params: { id } });
  assert.deepEqual([data.status, data.reason], ["cancelled", "user_cancelled"]);
  await plane.advance({ minutes: 2 });
  assert.deepEqual(
    robot.received.filter(({ apps }) => apps.main !== undefined),
    [],
  );
  await checkEngine(plane, { ended: true });
});

test("scheduled deployments that cannot start do not delay later ones", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if old.status = 'scheduled' and new.status <> 'scheduled' and old.app = 'broken' then raise exception 'planned: this deployment cannot start'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment for each row execute function test_fault()`);
  const scheduled_at = "2030-01-01T00:01:00Z";
  const { id: broken } = await plane.deploy(release, { robot_id: robot.id }, { scheduled_at });
  // More deployments than one batch contains.
  await plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, robot_id, release_id, app, status, scheduled_at, created_by, created_at, updated_at)
    select org_id, id || n, kind, target_kind, robot_id, release_id, 'broken', status, scheduled_at, created_by, created_at, updated_at
    from deployment, generate_series(1, 110) n where id = ${broken}`);
  await plane.db.run(sql`
    insert into deployment_due (org_id, id, due_at) select org_id, id, scheduled_at from deployment where app = 'broken'`);
  const later = await plane.deploy(release, { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:01:10Z" });
  await plane.advance({ seconds: 90 });
  assert.equal((await plane.deployment(later.id)).status, "applied");
  assert.ok(plane.logged.some(({ msg }) => msg === "a scheduled deployment could not be started"));
  await plane.db.run(sql`drop trigger test_fault on deployment`);
  await plane.advance({ minutes: 1 });
  const { items } = await plane.api.listDeployments({ query: { limit: 200 } });
  assert.deepEqual([...new Set(items.map(({ status }) => status))].toSorted(), ["applied", "cancelled"], "they start when they can");
});
