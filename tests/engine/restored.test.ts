import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

/** Copies the tables with the apps, configs and desired state of robots. The returned function restores them, as a restored backup does. */
async function backUp({ db }: Harness): Promise<() => Promise<void>> {
  await db.run(sql`create table robot_app_then as select * from robot_app`);
  await db.run(sql`create table robot_config_then as select * from robot_config`);
  await db.run(sql`create table robot_desired_then as select * from robot_desired`);
  // Copy only columns that are not generated.
  await db.run(sql`
    create function put_back(name text) returns void language plpgsql as $$
      declare kept text := (select string_agg(quote_ident(column_name), ', ') from information_schema.columns
        where table_schema = current_schema() and table_name = name and is_generated = 'NEVER');
      begin
        execute format('delete from %I', name);
        execute format('insert into %I (%s) select %s from %I', name, kept, kept, name || '_then');
      end $$`);
  return () =>
    db.transaction(async (tx) => {
      await tx.run(sql`select put_back('robot_app')`);
      await tx.run(sql`select put_back('robot_config')`);
      await tx.run(sql`select put_back('robot_desired')`);
    });
}

test("a robot keeps its newer releases after the server's database is restored from an old backup", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const deploy = async (app: string): Promise<string> => {
    const release = await plane.release({ app });
    await plane.deploy(release, { robot_id: robot.id });
    await plane.advance({ seconds: 1 });
    return release.tag;
  };
  const apps = ["camera", "main", "map"];
  for (const app of apps) await deploy(app);
  const restore = await backUp(plane);
  const newer = new Map<string, string>();
  for (const app of apps) newer.set(app, await deploy(app));
  const runs = () => new Map(apps.map((app) => [app, robot.runs(app)]));
  assert.deepEqual(runs(), newer);

  await robot.disconnect();
  await plane.settle();
  await restore();
  const received = robot.received.length;
  await robot.connect();
  await plane.settle();
  await plane.advance({ minutes: 2 });
  assert.deepEqual(runs(), newer);
  const shown = (await plane.api.getRobot({ params: { id: robot.id } })).data.apps;
  assert.deepEqual(
    new Map(shown.map(({ app, current }): [string, string | undefined] => [app, current?.tag]).toSorted()),
    new Map([...newer].toSorted()),
  );
  for (const { apps: wanted } of robot.received.slice(received))
    for (const [app, { release }] of Object.entries(wanted)) assert.equal(release?.tag, newer.get(app), `${app} was not rolled back`);

  newer.set("map", await deploy("map"));
  assert.deepEqual(runs(), newer, "and it receives later deployments");
});
