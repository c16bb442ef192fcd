import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";
import { seedRobots } from "./seed-robots.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

const countRow = row({ count: int });
/** Returns the number of backends of this test's database that wait for a row lock. */
const waiting = async ({ db }: Harness): Promise<number> =>
  (
    await db.one(
      sql(countRow)`select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
  ).count;

test("a deployment that cannot be dispatched does not delay others", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [one, other] = await plane.enrollRobots(2);
  assert.ok(one && other);
  await one.disconnect();
  await plane.settle();
  const release = await plane.release();
  const older = await plane.deploy(release, { robot_id: one.id });
  await plane.settle();
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.count_active > 0 and new.id > (select min(id) from deployment) then raise exception 'planned: this deployment fails'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment for each row execute function test_fault()`);
  const newer = await plane.deploy(release, { robot_id: other.id });
  await plane.advance({ seconds: 1 });
  assert.equal((await plane.deployment(newer.id)).status, "queued");
  const failures = () => plane.logged.filter(({ msg }) => msg === "a deployment could not be dispatched").length;
  assert.equal(failures(), 1);
  await one.connect();
  await plane.advance({ seconds: 20 });
  assert.equal((await plane.deployment(older.id)).status, "applied");
  assert.equal(failures(), 1, "it is not retried for a minute");
  await plane.db.run(sql`drop trigger test_fault on deployment`);
  await plane.advance({ seconds: 60 });
  assert.equal((await plane.deployment(newer.id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a full batch of failing dispatches is retried and does not block the next batch", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await seedRobots(plane, fleet_id, 1_100);
  const robot = await plane.enrollRobot();
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.waiting_for = 'robot_online' then raise exception 'planned: this dispatch fails'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment_target for each row execute function test_fault()`);
  const release = await plane.release();
  const older = await plane.deploy(release, { fleet_id });
  const newer = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.deployment(newer.id)).status, "applied");
  const waiting_for = async () => {
    const { items } = await plane.api.listDeploymentTargets({ params: { id: older.id }, query: { limit: 1_000 } });
    return new Set(items.map((target) => target.waiting_for));
  };
  assert.deepEqual(await waiting_for(), new Set([null]));
  const failures = () => plane.logged.filter(({ msg }) => msg === "a deployment could not be dispatched").length;
  const before = failures();
  assert.ok(before >= 3 && before <= 6, `${before} turns failed`);
  await plane.advance({ seconds: 50 });
  assert.equal(failures(), before);
  await plane.db.run(sql`drop trigger test_fault on deployment_target`);
  await plane.advance({ seconds: 15 });
  assert.deepEqual(await waiting_for(), new Set(["robot_online"]));
  await checkEngine(plane);
});

test("the dispatch of a deployment does not deadlock with a concurrent report of the robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [first, second] = [await plane.release(), await plane.release()];
  await plane.deploy(first, { robot_id: robot.id });
  await plane.settle();
  // Lock rows in the same order as a report: first the robot's sequence number, then its app.
  await plane.db.transaction(async (tx) => {
    await tx.run(sql`update robot_desired set outbox_seq = outbox_seq where robot_id = ${robot.id}`);
    void plane.deploy(second, { robot_id: robot.id });
    await until("dispatch to wait for the report", async () => (await waiting(plane)) > 0);
    await tx.run(sql`set local lock_timeout = '300ms'`);
    await tx.run(sql`update robot_app set status = status where robot_id = ${robot.id}`);
  });
  await plane.settle();
  assert.equal(robot.runs(), second.tag);
  await checkEngine(plane, { ended: true });
});

test("the cancellation of a deployment does not deadlock with a concurrent report of the robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [first, second] = [await plane.release(), await plane.release()];
  await plane.deploy(first, { robot_id: robot.id });
  await plane.settle();
  robot.behave({ step_ms: { downloading: 60_000 } }, second.id);
  const { id } = await plane.deploy(second, { robot_id: robot.id });
  await plane.settle();
  let cancelled: Promise<unknown> | undefined;
  await plane.db.transaction(async (tx) => {
    await tx.run(sql`update robot_desired set outbox_seq = outbox_seq where robot_id = ${robot.id}`);
    cancelled = plane.api.cancelDeployment({ params: { id } });
    await until("the cancellation to wait for the report", async () => (await waiting(plane)) > 0);
    await tx.run(sql`set local lock_timeout = '300ms'`);
    await tx.run(sql`update robot_app set status = status where robot_id = ${robot.id}`);
  });
  await cancelled;
  await plane.settle();
  assert.equal((await plane.deployment(id)).status, "cancelled");
  await checkEngine(plane, { ended: true });
});

test("a report that the server could not store is stored after a reconnect, before later reports", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.app = 'first' then raise exception 'planned: this report fails'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before insert on robot_app for each row execute function test_fault()`);
  for (const app of ["first", "second"]) robot.report({ kind: "app", app, release_id: null, previous_release_id: null, status: "stopped" });
  await plane.settle();
  assert.ok(
    plane.logged.some(({ msg }) => msg === "could not process a robot's message"),
    "the report failed first",
  );
  await plane.db.run(sql`drop trigger test_fault on robot_app`);
  await robot.connect();
  await plane.settle();
  const { data } = await plane.api.getRobot({ params: { id: robot.id } });
  assert.deepEqual(data.apps.map(({ app }) => app).toSorted(), ["first", "second"]);
  assert.deepEqual(robot.unacknowledged, []);
});
