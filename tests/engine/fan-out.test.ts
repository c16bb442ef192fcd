import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { seedRobots } from "./seed-robots.ts";
import { checkCounters, checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };
/** Chunk size of the engine. */
const CHUNK = 2_000;

/**
 * Makes the database close the connection during a chunk's transaction. `chunk`: after a chunk other than the first was written. `end`:
 * just before the fan-out is complete.
 */
const plantFault = async ({ db }: Harness, at: "chunk" | "end" = "chunk"): Promise<void> => {
  await db.run(sql`create table test_fault (id integer)`);
  await db.run(sql`
    create function test_chunk() returns trigger language plpgsql security definer as $$ begin
      if exists (select 1 from test_fault) and (select count(*) from added) > 1 and (select count(*) from deployment_target) > 2000 then perform pg_terminate_backend(pg_backend_pid()); end if;
      return null; end $$`);
  await db.run(sql`
    create function test_end() returns trigger language plpgsql security definer as $$ begin
      if exists (select 1 from test_fault) and old.fan_out_done_at is null and new.fan_out_done_at is not null then perform pg_terminate_backend(pg_backend_pid()); end if;
      return null; end $$`);
  if (at === "chunk")
    await db.run(
      sql`create trigger test_chunk after insert on deployment_target referencing new table as added for each statement execute function test_chunk()`,
    );
  else await db.run(sql`create trigger test_end after update on deployment for each row execute function test_end()`);
  await db.run(sql`insert into test_fault values (1)`);
};
const repairFault = ({ db }: Harness) => db.run(sql`delete from test_fault`);

const countRow = row({ targets: int, robots: int, dispatched: int });
const written = ({ db }: Harness, deployment_id: string) =>
  db.one(sql(countRow)`
    select count(*)::int as targets, count(distinct robot_id)::int as robots, count(*) filter (where attempt > 0)::int as dispatched
    from deployment_target where deployment_id = ${deployment_id}`);

test("creates 12,000 targets in chunks and dispatches none before the last chunk, despite crashes", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const online = await plane.enrollRobots(3, { fleet_id });
  await seedRobots(plane, fleet_id, 11_997);
  await plantFault(plane);
  const created = await plane.deploy(await plane.release(), { fleet_id });
  assert.deepEqual([created.status, created.counts.total], ["queued", 12_000], "the total is correct immediately");
  for (let turns = 0; turns < 3; turns += 1) {
    await plane.advance({ seconds: 10 });
    assert.deepEqual(await written(plane, created.id), { targets: CHUNK, robots: CHUNK, dispatched: 0 });
    await checkCounters(plane);
    await plane.restart();
  }
  assert.ok(
    plane.logged.some(({ msg, work }) => msg === "a background task failed" && work === "rollouts"),
    "the fan-out crashed first",
  );

  await repairFault(plane);
  await plane.advance({ seconds: 10 });
  assert.deepEqual(await written(plane, created.id), { targets: 12_000, robots: 12_000, dispatched: 3 });
  const { status, counts } = await plane.deployment(created.id);
  assert.deepEqual([status, counts.total, counts.applied, counts.queued], ["in_progress", 12_000, 3, 11_997]);
  for (const robot of online) assert.notEqual(robot.runs(), undefined);
  await checkEngine(plane);
});

test("a fleet deployment excludes robots that enroll while its targets are created", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await seedRobots(plane, fleet_id, 6_000);
  await plantFault(plane);
  const { id } = await plane.deploy(await plane.release(), { fleet_id });
  await plane.advance({ seconds: 1 });
  const late = await plane.enrollRobot({ fleet_id });
  await repairFault(plane);
  await plane.advance({ seconds: 10 });
  assert.deepEqual(await written(plane, id), { targets: 6_000, robots: 6_000, dispatched: 0 });
  assert.deepEqual(
    late.received.filter(({ apps }) => apps.main !== undefined),
    [],
  );
  await checkEngine(plane);
});

const CANCELLED_AT: [count: number, at: "chunk" | "end"][] = [
  [2 * CHUNK, "chunk"],
  [2 * CHUNK + 1, "chunk"],
  // All targets have been written. The fan-out is complete after one more chunk, which is empty.
  [2 * CHUNK, "end"],
];
for (const [count, at] of CANCELLED_AT) {
  test(
    `no robot receives a deployment to ${count} robots that is cancelled before the ${at === "end" ? "end of the fan-out" : "second chunk"}`,
    TIMEOUT,
    async () => {
      await using plane = await startPlane({ at: AT });
      const fleet_id = await plane.fleet();
      const robot = await plane.enrollRobot({ fleet_id });
      await seedRobots(plane, fleet_id, count - 1);
      await plantFault(plane, at);
      const { id } = await plane.deploy(await plane.release(), { fleet_id });
      await plane.advance({ seconds: 1 });
      const { data } = await plane.api.cancelDeployment({ params: { id } });
      assert.equal(data.status, "cancelling");
      await plane.advance({ seconds: 10 });
      await checkCounters(plane);
      const { status: before, counts: so_far } = await plane.deployment(id);
      assert.deepEqual([before, so_far.cancelled, so_far.queued], ["cancelling", at === "end" ? count : CHUNK, 0]);
      await repairFault(plane);
      await plane.advance({ seconds: 30 });
      const { status, reason, counts } = await plane.deployment(id);
      assert.deepEqual(
        { status, reason, total: counts.total, cancelled: counts.cancelled },
        { status: "cancelled", reason: "user_cancelled", total: count, cancelled: count },
      );
      assert.deepEqual(
        robot.received.filter(({ apps }) => apps.main !== undefined),
        [],
      );
      await checkEngine(plane, { ended: true });
    },
  );
}

test("a newer robot deployment supersedes a fleet deployment whose targets are still being created", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await seedRobots(plane, fleet_id, 6_000, "before");
  const robot = await plane.enrollRobot({ fleet_id });
  const [of_fleet, of_robot] = [await plane.release(), await plane.release()];
  await plantFault(plane);
  await plane.advance({ seconds: 1 });
  const fleet = await plane.deploy(of_fleet, { fleet_id });
  await plane.advance({ seconds: 1 });
  const single = await plane.deploy(of_robot, { robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.deployment(single.id)).status, "applied");
  await repairFault(plane);
  await plane.advance({ seconds: 30 });
  assert.equal(robot.runs(), of_robot.tag);
  const target = (await plane.api.listDeploymentTargets({ params: { id: fleet.id }, query: { robot_id: robot.id } })).items[0];
  assert.deepEqual([target?.status, target?.reason], ["cancelled", "superseded"]);
  await checkEngine(plane);
});
