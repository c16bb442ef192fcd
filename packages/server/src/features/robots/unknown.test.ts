import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type pg from "pg";
import { withClient } from "../../engines/db/with-client.ts";
import { int, row, sql, text } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { robotRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };

const started = async () => {
  const it = await startFeaturePlane([robotRoutes]);
  const { org_id } = await it.org();
  const { robot_id } = await seedRobot(it.plane, org_id);
  const { db } = it.plane;
  const unknown = async () =>
    (
      await db.many(
        sql(row({ state: text }))`select state from robot_unknown where org_id = ${org_id} and robot_id = ${robot_id} order by state`,
      )
    ).map(({ state }) => state);
  const setConfig = (namespace: string) =>
    db.run(sql`
      insert into robot_config (org_id, robot_id, namespace, version, content, sha256, updated_at)
      values (${org_id}, ${robot_id}, ${namespace}, 1, '{}', 'a', ${it.clock.now()})`);
  await db.run(sql`insert into robot_desired (org_id, robot_id, updated_at) values (${org_id}, ${robot_id}, ${it.clock.now()})`);
  return { it, db, org_id, robot_id, unknown, setConfig, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
};

test("a robot's state is unknown until its first row, and again without its last one", TIMEOUT, async () => {
  await using at = await started();
  const { db, org_id, robot_id, unknown } = at;
  const now = at.it.clock.now();
  assert.deepEqual(await unknown(), ["config", "health", "release"]);

  await db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot, state) values (${org_id}, ${robot_id}, ${now}, '{}', 'ok')`);
  assert.deepEqual(await unknown(), ["config", "release"]);

  // An app without a release is not known yet.
  for (const app of ["main", "arm"])
    await db.run(sql`insert into robot_app (org_id, robot_id, app, updated_at) values (${org_id}, ${robot_id}, ${app}, ${now})`);
  assert.deepEqual(await unknown(), ["config", "release"]);
  const setRelease = (app: string, release_id: string | null) =>
    db.run(
      sql`update robot_app set current_release_id = ${release_id} where org_id = ${org_id} and robot_id = ${robot_id} and app = ${app}`,
    );
  await setRelease("main", "rel_1");
  await setRelease("arm", "rel_2");
  await setRelease("main", null);
  assert.deepEqual(await unknown(), ["config"]);
  await setRelease("arm", null);
  assert.deepEqual(await unknown(), ["config", "release"]);

  await at.setConfig("a");
  await at.setConfig("b");
  assert.deepEqual(await unknown(), ["release"]);
  await db.run(sql`delete from robot_config where org_id = ${org_id} and robot_id = ${robot_id} and namespace = 'a'`);
  assert.deepEqual(await unknown(), ["release"]);
  await db.run(sql`delete from robot_config where org_id = ${org_id} and robot_id = ${robot_id}`);
  assert.deepEqual(await unknown(), ["config", "release"]);

  await at.setConfig("a");
  await db.run(sql`delete from robot where org_id = ${org_id} and id = ${robot_id}`);
  assert.deepEqual(await unknown(), []);
});

test("concurrent transactions that delete one config each leave the state unknown", TIMEOUT, async () => {
  await using at = await started();
  const { connection } = at.it.database;
  await at.setConfig("a");
  await at.setConfig("b");
  const remove = (client: pg.Client, namespace: string) =>
    client.query("delete from robot_config where org_id = $1 and robot_id = $2 and namespace = $3", [at.org_id, at.robot_id, namespace]);
  const waiting = sql(row({ n: int }))`
    select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await withClient(connection, (first) =>
    withClient(connection, async (second) => {
      await first.query("begin");
      await remove(first, "a");
      const removed = remove(second, "b");
      await until("the second transaction waits", async () => (await at.db.one(waiting)).n > 0);
      await first.query("commit");
      await removed;
    }),
  );
  assert.deepEqual(await at.unknown(), ["config", "health", "release"]);
});

test("the rows of a robot are removed with it", TIMEOUT, async () => {
  await using at = await started();
  const { db, org_id, robot_id, unknown, setConfig } = at;
  await setConfig("one");
  assert.deepEqual(await unknown(), ["health", "release"]);
  await db.run(sql`delete from robot where org_id = ${org_id} and id = ${robot_id}`);
  assert.deepEqual(await unknown(), []);
});
