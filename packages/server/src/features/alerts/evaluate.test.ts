import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { IncidentStatus } from "@roamfleet/protocol";
import { int, json, nullable, row, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { evaluateOrg } from "./evaluate.ts";
import { createDefaultRules, startAlerts } from "./index.ts";
import { CHANGES_MAX } from "./store-incidents.ts";

const TIMEOUT = { timeout: 120_000 };

/** Starts a plane whose alert rules are evaluated while its clock advances. */
async function start() {
  const rig = await startFeaturePlane([]);
  const { plane } = rig;
  const { db } = plane;
  const loop = startAlerts(plane);
  const incidentRow = row({
    id: text,
    title: text,
    status: textOf<IncidentStatus>(),
    member_count: int,
    active_count: int,
    flap_count: int,
    fleet_id: nullable(text),
  });
  const entryRow = row({ kind: text });
  return {
    rig,
    plane,
    async org() {
      const { org_id } = await rig.org();
      await createDefaultRules(db, plane, org_id);
      return org_id;
    },
    setOnline: (org_id: string, online: boolean, site_id?: string) =>
      db.run(sql`
        update robot set node_id = ${online ? "node_a" : null}, connected_at = coalesce(connected_at, ${rig.clock.now()})
        where org_id = ${org_id} and site_id = coalesce(${site_id ?? null}, site_id)`),
    incidents: (org_id: string) => db.many(sql(incidentRow)`select ${incidentRow} from incident where org_id = ${org_id} order by id`),
    entries: async (org_id: string, incident_id: string) =>
      (
        await db.many(sql(entryRow)`select kind from incident_entry where org_id = ${org_id} and incident_id = ${incident_id} order by id`)
      ).map(({ kind }) => kind),
    [Symbol.asyncDispose]: async () => {
      await loop.stop();
      await rig[Symbol.asyncDispose]();
    },
  };
}

/** Adds robots to the site and fleet of another one. */
const seedMore = (plane: Parameters<typeof seedRobot>[0], org_id: string, like: string, count: number) =>
  plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, connected_at, node_id, created_at, updated_at)
    select r.org_id, r.id || n, r.name || n, r.site_id, r.fleet_id, convert_to(r.id || n, 'UTF8'), ${plane.clock.now()}, 'node_a', r.created_at, r.updated_at
    from robot r cross join generate_series(1, ${count}::int) n where r.org_id = ${org_id} and r.id = ${like}`);

test("1,000 robots of a site that go offline are one incident, which is resolved once", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const org_id = await it.org();
  const here = await seedRobot(plane, org_id);
  const there = await seedRobot(plane, org_id);
  await seedMore(plane, org_id, here.robot_id, 999);
  await it.setOnline(org_id, true);
  await rig.clock.advance({ minutes: 1 });
  // The robots are noticed in two parts, like after a network failure.
  await plane.db.run(sql`
    update robot set node_id = null where org_id = ${org_id} and site_id = ${here.site_id} and id <= ${`${here.robot_id}500`}`);
  await rig.clock.advance({ seconds: 20 });
  await it.setOnline(org_id, false, here.site_id);
  await rig.clock.advance({ minutes: 9 });
  assert.deepEqual(await it.incidents(org_id), []);
  await rig.clock.advance({ minutes: 2 });
  const [incident, ...others] = await it.incidents(org_id);
  assert.deepEqual(others, []);
  assert.ok(incident !== undefined);
  assert.deepEqual(
    [incident.title, incident.status, incident.member_count, incident.active_count, incident.fleet_id],
    ["Robot offline", "open", 1_000, 1_000, null],
  );
  await it.setOnline(org_id, true);
  await rig.clock.advance({ minutes: 1 });
  assert.deepEqual(
    (await it.incidents(org_id)).map(({ status, active_count }) => [status, active_count]),
    [["open", 0]],
  );
  await rig.clock.advance({ minutes: 3 });
  assert.deepEqual(
    (await it.incidents(org_id)).map(({ status, member_count }) => [status, member_count]),
    [["resolved", 1_000]],
  );
  assert.deepEqual(await it.entries(org_id, incident.id), ["opened", "resolved"]);
  assert.ok(there.robot_id);
});

test("all robots of a large site are one incident, which several evaluations fill and empty", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const org_id = await it.org();
  const count = 2 * CHANGES_MAX + 100;
  await seedMore(plane, org_id, (await seedRobot(plane, org_id)).robot_id, count - 1);
  await it.setOnline(org_id, true);
  await rig.clock.advance({ minutes: 1 });
  await it.setOnline(org_id, false);
  await rig.clock.advance({ minutes: 11 });
  assert.deepEqual(
    (await it.incidents(org_id)).map(({ status, member_count, active_count }) => [status, member_count, active_count]),
    [["open", count, count]],
  );
  await it.setOnline(org_id, true);
  await rig.clock.advance({ minutes: 4 });
  assert.deepEqual(
    (await it.incidents(org_id)).map(({ status, member_count, active_count }) => [status, member_count, active_count]),
    [["resolved", count, 0]],
  );
});

test("an evaluation counts as one only when nothing remains to be changed", TIMEOUT, async () => {
  await using rig = await startFeaturePlane([]);
  const { plane, clock } = rig;
  const { org_id } = await rig.org();
  await createDefaultRules(plane.db, plane, org_id);
  await plane.db.run(sql`update alert_rule set for_seconds = 0 where org_id = ${org_id}`);
  await seedMore(plane, org_id, (await seedRobot(plane, org_id)).robot_id, CHANGES_MAX);
  await plane.db.run(sql`update robot set node_id = null, connected_at = ${clock.now()} where org_id = ${org_id}`);
  const evaluatedRow = row({ evaluated_at: nullable(timestamptz) });
  const evaluated: [boolean, Date | null][] = [];
  for (let more = true; more;) {
    more = await evaluateOrg(plane.db.forOrg(org_id), plane, org_id);
    const { evaluated_at } = await plane.db.one(sql(evaluatedRow)`select evaluated_at from alert_evaluation where org_id = ${org_id}`);
    evaluated.push([more, evaluated_at]);
  }
  assert.deepEqual(evaluated, [
    [true, null],
    [false, clock.now()],
  ]);
});

test("an org whose evaluation exceeds the time limit does not delay the others", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const [slow, other] = [await it.org(), await it.org()];
  for (const org_id of [slow, other]) await seedRobot(plane, org_id);
  await it.setOnline(slow, false);
  await rig.clock.advance({ minutes: 11 });
  await it.setOnline(other, false);
  await plane.db.run(sql`update alert_rule set for_seconds = 0 where org_id = ${other}`);
  await plane.db.run(sql`update alert_evaluation set next_at = '2000-01-01' where org_id = ${slow}`);
  const own = await rig.database.connect();
  const blockedRow = row({ pid: int });
  await own.transaction(async (tx) => {
    await tx.run(sql`select from incident where org_id = ${slow} for update`);
    const advanced = rig.clock.advance({ seconds: 10 });
    // Cancel the statement like its time limit does, with the same error.
    await until("the evaluation to wait for the lock", async () => {
      // A transaction sees the same activity until it ends, so the search needs another connection.
      const blocked = await plane.db.many(sql(blockedRow)`
        select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
      for (const { pid } of blocked) await plane.db.run(sql`select pg_cancel_backend(${pid})`);
      return blocked.length > 0;
    });
    await advanced;
  });
  await own.close();
  assert.deepEqual(
    (await it.incidents(other)).map(({ title }) => title),
    ["Robot offline"],
  );
});

test("a robot that is offline for weeks does not hide that its site goes offline", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const org_id = await it.org();
  const first = await seedRobot(plane, org_id);
  await it.setOnline(org_id, false);
  await rig.clock.advance({ hours: 2 });
  await seedMore(plane, org_id, first.robot_id, 3);
  await rig.clock.advance({ minutes: 1 });
  await it.setOnline(org_id, false);
  await rig.clock.advance({ minutes: 15 });
  assert.deepEqual(
    (await it.incidents(org_id)).map(({ status, member_count }) => [status, member_count]),
    [
      ["open", 1],
      ["open", 3],
    ],
  );
});

test("a robot that matches again within an hour of the resolution reopens the incident", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const org_id = await it.org();
  await seedRobot(plane, org_id);
  await it.setOnline(org_id, false);
  await rig.clock.advance({ minutes: 11 });
  await it.setOnline(org_id, true);
  await rig.clock.advance({ minutes: 5 });
  await it.setOnline(org_id, false);
  await rig.clock.advance({ minutes: 11 });
  const [incident] = await it.incidents(org_id);
  assert.ok(incident !== undefined);
  assert.deepEqual([incident.status, incident.flap_count, (await it.incidents(org_id)).length], ["open", 1, 1]);
  assert.deepEqual(await it.entries(org_id, incident.id), ["opened", "resolved", "reopened"]);
});

test("every type of condition opens an incident where it is true, and nowhere else", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const { db } = plane;
  const now = rig.clock.now();
  const [org_id, other] = [await it.org(), await it.org()];
  const robot = await seedRobot(plane, org_id);
  await seedRobot(plane, org_id);
  await seedRobot(plane, other);
  for (const org of [org_id, other]) await it.setOnline(org, true);
  await db.run(sql`update robot set agent_version = '0.0.1' where org_id = ${org_id} and id = ${robot.robot_id}`);
  await db.run(sql`
    insert into alert_rule (org_id, id, name, condition, for_seconds, severity, created_at, updated_at) values
      (${org_id}, 'alr_1', 'Agent outdated', '{"type": "agent_outdated"}', 0, 'info', ${now}, ${now}),
      (${org_id}, 'alr_2', 'Check memory', '{"type": "check_failing", "check": "memory"}', 0, 'info', ${now}, ${now}),
      (${org_id}, 'alr_3', 'Check me', '{"type": "check_failing", "check": "me"}', 0, 'info', ${now}, ${now}),
      (${org_id}, 'alr_4', 'Of a fleet', '{"type": "agent_outdated"}', 0, 'info', ${now}, ${now}),
      (${org_id}, 'alr_5', 'Of labels', '{"type": "agent_outdated"}', 0, 'info', ${now}, ${now}),
      (${org_id}, 'alr_6', 'Disabled', '{"type": "agent_outdated"}', 0, 'info', ${now}, ${now})`);
  await db.run(sql`update alert_rule set fleet_id = ${robot.fleet_id} where org_id = ${org_id} and id = 'alr_4'`);
  await db.run(sql`update alert_rule set labels = '{"zone": "a"}' where org_id = ${org_id} and id = 'alr_5'`);
  await db.run(sql`update alert_rule set disabled_at = ${now} where org_id = ${org_id} and id = 'alr_6'`);
  await db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
    values (${org_id}, ${robot.robot_id}, ${now}, ${json({ disks: [{ mount: "/", used_bytes: 91, total_bytes: 100 }] })}, 'failing', '["memory: 99% used"]')`);
  await db.run(sql`
    insert into robot_config (org_id, robot_id, namespace, version, content, sha256, reported_version, reported_sha256, updated_at)
    values (${org_id}, ${robot.robot_id}, 'n', 1, '{}', 'a', 1, 'b', ${now})`);
  for (const [id, status, finished_at] of [
    ["dep_1", "failed", now],
    ["dep_2", "paused", null],
    ["dep_3", "failed", new Date(now.getTime() - 2 * 86_400_000)],
  ] as const)
    await db.run(sql`
      insert into deployment (org_id, id, kind, target_kind, fleet_id, status, created_by, finished_at, created_at, updated_at)
      values (${org_id}, ${id}, 'release', 'fleet', ${robot.fleet_id}, ${status}, '{}', ${finished_at}, ${now}, ${now})`);
  // Robots that return to their previous release after a failed check end the deployment as `rolled_back`, as a person's rollback does.
  for (const [id, reason] of [
    ["dep_4", "health_check_failed"],
    ["dep_5", "rollback_requested"],
  ] as const)
    await db.run(sql`
      insert into deployment (org_id, id, kind, target_kind, fleet_id, status, reason_counts, created_by, finished_at, created_at, updated_at)
      values (${org_id}, ${id}, 'release', 'fleet', ${robot.fleet_id}, 'rolled_back', ${json({ rolled_back: { [reason]: 1 } })}, '{}',
        ${now}, ${now}, ${now})`);
  await rig.clock.advance({ minutes: 31 });
  const found = await it.incidents(org_id);
  assert.deepEqual(found.map(({ title }) => title).toSorted(), [
    "Agent outdated",
    "Check failing",
    "Check memory",
    "Config drift",
    "Deployment failed",
    "Deployment paused",
    "Disk almost full",
    "Of a fleet",
  ]);
  for (const { title, member_count, active_count } of found) {
    const members = title === "Deployment failed" ? 2 : 1;
    assert.deepEqual([member_count, active_count], [members, members], title);
  }
  assert.deepEqual(
    found
      .filter(({ fleet_id }) => fleet_id !== null)
      .map(({ title }) => title)
      .toSorted(),
    ["Deployment failed", "Deployment paused", "Of a fleet"],
  );
  assert.deepEqual(await it.incidents(other), []);
  // A deleted rule ends its incident, and so does the robot's end of use.
  await db.run(sql`delete from alert_rule where org_id = ${org_id} and id = 'alr_1'`);
  await db.run(sql`update robot set decommissioned_at = ${now} where org_id = ${org_id} and id = ${robot.robot_id}`);
  await rig.clock.advance({ minutes: 5 });
  assert.deepEqual(
    (await it.incidents(org_id))
      .filter(({ status }) => status !== "resolved")
      .map(({ title }) => title)
      .toSorted(),
    ["Deployment failed", "Deployment paused"],
  );
});

test("only one of several concurrent evaluations of an org opens an incident", TIMEOUT, async () => {
  await using it = await start();
  const { rig, plane } = it;
  const org_id = await it.org();
  await seedRobot(plane, org_id);
  await it.setOnline(org_id, false);
  await plane.db.run(sql`update alert_rule set for_seconds = 0 where org_id = ${org_id}`);
  const own = await rig.database.connect();
  await Promise.all([plane.db, own, plane.db, own].map((db) => evaluateOrg(db.forOrg(org_id), plane, org_id)));
  await own.close();
  assert.equal((await it.incidents(org_id)).length, 1);
});

test("creates the default rules for orgs that have none, once", TIMEOUT, async () => {
  await using it = await start();
  const { org_id } = await it.rig.org();
  const count = async () =>
    (await it.plane.db.one(sql(row({ count: int }))`select count(*)::int as count from alert_rule where org_id = ${org_id}`)).count;
  await it.rig.clock.advance({ seconds: 10 });
  assert.equal(await count(), 6);
  await it.plane.db.run(sql`delete from alert_rule where org_id = ${org_id}`);
  await it.rig.clock.advance({ minutes: 1 });
  assert.equal(await count(), 0);
});
