import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const DUE = { scheduled_at: "2030-01-01T00:01:00Z" };
const TIMEOUT = { timeout: 120_000 };

const countRow = row({ events: int, transactions: int });
/** Returns the number of dispatched targets, and the number of transactions that dispatched them. */
const dispatched = ({ db }: Harness) =>
  db.one(sql(countRow)`
    select count(*)::int as events, count(distinct xmin::text)::int as transactions from deployment_event where kind = 'target.dispatched'`);

test("dispatches single-robot deployments with the same due time in one batch", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robots = await plane.enrollRobots(12);
  const [before, release] = [await plane.release(), await plane.release()];
  for (const robot of robots.slice(0, 4)) await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  const first = await dispatched(plane);
  const ids: string[] = [];
  for (const robot of robots) ids.push((await plane.deploy(release, { robot_id: robot.id }, DUE)).id);
  await plane.advance({ minutes: 2 });
  const all = await dispatched(plane);
  assert.equal(all.events - first.events, 12);
  assert.ok(all.transactions - first.transactions <= 3, `${all.transactions - first.transactions} transactions`);
  for (const [i, id] of ids.entries()) {
    assert.equal((await plane.deployment(id)).status, "applied");
    assert.deepEqual(await plane.events(id), ["deployment.scheduled", "deployment.queued", "deployment.in_progress", "deployment.applied"]);
    const { data } = await plane.api.rollBackDeployment({ params: { id } });
    assert.equal(data.release_id, i < 4 ? before.id : release.id, "each has its previous release");
  }
  await plane.settle();
  for (const [i, robot] of robots.entries()) assert.equal(robot.runs(), i < 4 ? before.tag : undefined);
  await checkEngine(plane, { ended: true });
});

test("batched dispatch gives each deployment the same result as dispatching it alone, even if another one fails", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [plain, away, twice, unfit, broken, apps] = [
    ...(await plane.enrollRobots(3)),
    await plane.enrollRobot({ kinds: ["app_bundle"], online: true }),
    // Enroll these one after the other, because the fault below affects the first of them in the order of IDs.
    ...(await plane.enrollRobots(1)),
    ...(await plane.enrollRobots(1)),
  ];
  assert.ok(plain && away && twice && unfit && broken && apps);
  await away.disconnect();
  await plane.settle();
  const [older, release, other] = [await plane.release(), await plane.release(), await plane.release({ app: "second" })];
  const due = async (robot: { id: string }, what: { id: string }) => (await plane.deploy(what, { robot_id: robot.id }, DUE)).id;
  const superseded = await due(twice, older);
  const ids = {
    plain: await due(plain, release),
    away: await due(away, release),
    twice: await due(twice, release),
    unfit: await due(unfit, release),
    broken: await due(broken, release),
    main: await due(apps, release),
    second: await due(apps, other),
  };
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.robot_id = (select id from robot order by id offset 4 limit 1) and new.status = 'dispatched' then raise exception 'planned: this dispatch fails'; end if;
      return new; end $$`);
  await plane.db.run(
    sql`create trigger test_fault before insert or update on deployment_target for each row execute function test_fault()`,
  );
  await plane.advance({ seconds: 70 });
  const status = async (id: string) => {
    const { status, reason } = await plane.deployment(id);
    return `${status} ${reason}`;
  };
  assert.equal(await status(ids.plain), "applied null");
  assert.equal(await status(ids.away), "queued null");
  assert.equal(await status(ids.twice), "applied null");
  assert.equal(await status(superseded), "cancelled superseded");
  assert.equal(await status(ids.unfit), "failed incompatible");
  assert.equal(await status(ids.broken), "queued null");
  assert.deepEqual([await status(ids.main), await status(ids.second)], ["applied null", "applied null"]);
  await plane.db.run(sql`drop trigger test_fault on deployment_target`);
  await away.connect();
  await plane.advance({ minutes: 2 });
  assert.deepEqual([await status(ids.away), await status(ids.broken)], ["applied null", "applied null"]);
  await checkEngine(plane, { ended: true });
});
