import assert from "node:assert/strict";
import { test } from "node:test";
import type { AlertRule, AlertRuleTest, Incident, IncidentEntry, IncidentMember } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { startAlertPlane } from "./testing/alert-plane.ts";

const TIMEOUT = { timeout: 120_000 };
const OFFLINE = { name: "Offline", condition: { type: "robot_offline" }, severity: "warning" };

test("creates, changes, disables and deletes a rule", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  await it.robots(2);
  const { status, body } = await it.call<AlertRule>("POST", "/api/alert-rules", { ...OFFLINE, for_seconds: 60 });
  assert.equal(status, 201);
  const { id } = body.data;
  assert.deepEqual((await it.call<AlertRule>("GET", `/api/alert-rules/${id}`)).body.data, body.data);
  const path = `/api/alert-rules/${id}`;
  const changed = await it.call<AlertRule>("PATCH", path, { severity: "critical", enabled: false });
  assert.deepEqual([changed.body.data.severity, changed.body.data.name], ["critical", "Offline"]);
  assert.notEqual(changed.body.data.disabled_at, null);
  assert.equal((await it.call<AlertRule>("PATCH", path, { enabled: true })).body.data.disabled_at, null);
  assert.equal((await it.call("POST", "/api/alert-rules", OFFLINE)).status, 409);
  for (const wrong of [
    { condition: { type: "robot_offline", percent: 3 } },
    { condition: { type: "deployment_failed" }, labels: { zone: "a" } },
    { condition: { type: "disk_above", percent: 100 } },
  ])
    assert.equal((await it.call("POST", "/api/alert-rules", { ...OFFLINE, name: "Wrong", ...wrong })).status, 400);
  assert.equal((await it.call("DELETE", path)).status, 200);
  assert.equal((await it.call("GET", path)).status, 404);
});

test("refuses a rule that matches every robot of its scope, unless forced; a dry run stores nothing", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  const [first, second] = await it.robots(2);
  assert.ok(first !== undefined && second !== undefined);
  await it.setOnline(first.robot_id, false);
  const tried = await it.call<AlertRuleTest>("POST", "/api/alert-rules", { ...OFFLINE, dry_run: true });
  assert.equal(tried.status, 200);
  assert.deepEqual(
    [tried.body.data.match_count, tried.body.data.scope_count, tried.body.data.matches.map(({ subject_id }) => subject_id)],
    [1, 2, [first.robot_id]],
  );
  assert.deepEqual(await it.items("/api/alert-rules"), []);
  const only = { ...OFFLINE, fleet_id: first.fleet_id };
  const refused = await it.call("POST", "/api/alert-rules", only);
  assert.deepEqual([refused.status, refused.body.error.message.includes("every robot of its scope now (1)")], [409, true]);
  const forced = await it.call<AlertRule>("POST", "/api/alert-rules", { ...only, force: true });
  assert.deepEqual([forced.status, forced.body.data.site_id], [201, first.site_id]);
  const path = `/api/alert-rules/${forced.body.data.id}`;
  assert.equal((await it.call<AlertRuleTest>("POST", `${path}/test`, { fleet_id: second.fleet_id })).body.data.match_count, 0);
  assert.equal((await it.call<AlertRule>("GET", path)).body.data.fleet_id, first.fleet_id);
  const elsewhere = await it.call("POST", "/api/alert-rules", { ...only, name: "Elsewhere", site_id: second.site_id });
  assert.equal(elsewhere.status, 400);
});

test("an incident has the name of its only robot, but not after that robot has moved to another site", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  const [robot, other] = await it.robots(2);
  assert.ok(robot !== undefined && other !== undefined);
  const rule = (await it.call<AlertRule>("POST", "/api/alert-rules", OFFLINE)).body.data;
  await it.setOnline(robot.robot_id, false);
  await it.clock.advance({ seconds: 20 });
  const read = async () => (await it.items<Incident>(`/api/incidents?rule_id=${rule.id}`))[0];
  const id = (await read())?.id ?? "";
  const [member] = await it.items<IncidentMember>(`/api/incidents/${id}/members`);
  assert.ok(member?.robot_name);
  assert.equal((await read())?.robot_name, member.robot_name);
  await it.plane.db.run(
    sql`update robot set site_id = ${other.site_id}, fleet_id = ${other.fleet_id} where org_id = ${it.org_id} and id = ${robot.robot_id}`,
  );
  assert.equal((await read())?.robot_name, null);
  assert.equal((await it.call<Incident>("GET", `/api/incidents/${id}`)).body.data.robot_name, null);
});

test("a caller of a fleet changes only rules of that fleet, and cannot widen them", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  const [own, other] = await it.robots(2);
  assert.ok(own !== undefined && other !== undefined);
  const by = await it.scoped({ fleet_id: own.fleet_id });
  const post = async (body: object, token = it.token) =>
    await it.call<AlertRule>("POST", "/api/alert-rules", { ...OFFLINE, ...body }, token);
  const everywhere = (await post({ name: "Everywhere" })).body.data.id;
  const foreign = (await post({ name: "Foreign", fleet_id: other.fleet_id })).body.data.id;
  const mine = (await post({ name: "Mine", fleet_id: own.fleet_id }, by)).body.data.id;
  assert.equal((await post({ name: "No scope" }, by)).status, 400);
  assert.equal((await post({ name: "Other fleet", fleet_id: other.fleet_id }, by)).status, 404);
  assert.equal((await post({ name: "Whole site", site_id: own.site_id }, by)).status, 403);
  const change = async (id: string, body: object) => (await it.call("PATCH", `/api/alert-rules/${id}`, body, by)).status;
  assert.equal(await change(everywhere, { severity: "info" }), 403);
  assert.equal(await change(foreign, { severity: "info" }), 404);
  assert.equal(await change(mine, { severity: "info" }), 200);
  assert.equal(await change(mine, { site_id: own.site_id }), 403);
  assert.equal(await change(mine, { whole_org: true }), 403);
  assert.equal(await change(mine, { fleet_id: other.fleet_id }), 404);
  const names = (await it.items<AlertRule>("/api/alert-rules", by)).map(({ name }) => name);
  assert.deepEqual(names.toSorted(), ["Everywhere", "Mine"]);
});

test("acknowledges, comments, assigns and resolves an incident, which then waits for a new match", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  const [robot] = await it.robots(2);
  assert.ok(robot !== undefined);
  const rule = (await it.call<AlertRule>("POST", "/api/alert-rules", OFFLINE)).body.data;
  await it.setOnline(robot.robot_id, false);
  await it.clock.advance({ seconds: 20 });
  const [opened] = await it.items<Incident>(`/api/incidents?unresolved=true&robot_id=${robot.robot_id}&rule_id=${rule.id}`);
  assert.equal(opened?.status, "open");
  const path = `/api/incidents/${opened.id}`;
  const user_id = `usr_${"1".repeat(26)}`;
  const { db } = it.plane;
  const now = it.clock.now();
  await db.run(
    sql`insert into user_account (id, email, name, created_at, updated_at) values (${user_id}, 'ada@example.org', 'Ada', ${now}, ${now})`,
  );
  assert.equal((await it.call("POST", `${path}/assign`, { user_id })).status, 404);
  await db.run(sql`
    insert into membership (org_id, user_id, role, name, created_at, updated_at) values (${it.org_id}, ${user_id}, 'viewer', 'Ada', ${now}, ${now})`);
  assert.equal((await it.call<Incident>("POST", `${path}/acknowledge`, {})).body.data.status, "acknowledged");
  assert.equal((await it.call<Incident>("POST", `${path}/acknowledge`, {})).status, 200);
  assert.equal((await it.call<Incident>("POST", `${path}/assign`, { user_id })).body.data.assignee_name, "Ada");
  assert.equal((await it.call("POST", `${path}/assign`, {})).status, 400, "an org token is no user");
  await it.call("POST", `${path}/comment`, { comment: "Looking" });
  const resolved = (await it.call<Incident>("POST", `${path}/resolve`, { comment: "Cable" })).body.data;
  assert.deepEqual([resolved.status, resolved.active_count, resolved.member_count], ["resolved", 0, 1]);
  assert.equal((await it.call("POST", `${path}/resolve`, {})).status, 409);
  assert.equal((await it.call("POST", `${path}/acknowledge`, {})).status, 409);
  await it.clock.advance({ minutes: 5 });
  assert.equal((await it.call<Incident>("GET", path)).body.data.status, "resolved");
  await it.setOnline(robot.robot_id, true);
  await it.clock.advance({ minutes: 1 });
  await it.setOnline(robot.robot_id, false);
  await it.clock.advance({ minutes: 1 });
  const reopened = (await it.call<Incident>("GET", path)).body.data;
  assert.deepEqual([reopened.status, reopened.acknowledged_at, reopened.assignee_id], ["open", null, user_id]);
  assert.deepEqual(
    (await it.items<IncidentEntry>(`${path}/entries`)).map(({ kind, comment, actor }) => [kind, comment, actor.type]).toReversed(),
    [
      ["opened", null, "system"],
      ["acknowledged", null, "org_token"],
      ["assigned", "Ada", "org_token"],
      ["commented", "Looking", "org_token"],
      ["resolved", "Cable", "org_token"],
      ["reopened", null, "system"],
    ],
  );
});

for (const end of ["deleted", "disabled", "moved to another fleet"])
  test(`a rule that is ${end} has no active members, and its incident is resolved`, TIMEOUT, async () => {
    await using it = await startAlertPlane();
    const [robot, other] = await it.robots(2);
    assert.ok(robot !== undefined && other !== undefined);
    const { id } = (await it.call<AlertRule>("POST", "/api/alert-rules", OFFLINE)).body.data;
    await it.setOnline(robot.robot_id, false);
    await it.clock.advance({ seconds: 20 });
    const [incident] = await it.items<Incident>("/api/incidents");
    const members = async () => await it.items<IncidentMember>(`/api/incidents/${incident?.id}/members?active=true`);
    assert.deepEqual(
      (await members()).map(({ subject_id }) => subject_id),
      [robot.robot_id],
    );
    const body = end === "deleted" ? undefined : end === "disabled" ? { enabled: false } : { fleet_id: other.fleet_id };
    assert.equal((await it.call(end === "deleted" ? "DELETE" : "PATCH", `/api/alert-rules/${id}`, body)).status, 200);
    if (end === "disabled") await it.clock.advance({ seconds: 10 });
    assert.deepEqual(await members(), []);
    await it.clock.advance({ minutes: 3 });
    assert.deepEqual(
      (await it.items<Incident>("/api/incidents")).map(({ status, active_count, member_count }) => [status, active_count, member_count]),
      [["resolved", 0, 1]],
    );
  });

test("a test against the past counts matches that lasted, grouped into incidents", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  const [first, second, online] = await it.robots(3);
  assert.ok(first !== undefined && second !== undefined && online !== undefined);
  const { db, id } = it.plane;
  const entry = async (robot_id: string, kind: string) =>
    await db.run(sql`
      insert into timeline_entry (org_id, robot_id, id, at, kind, actor, summary)
      values (${it.org_id}, ${robot_id}, ${id("evt")}, ${it.clock.now()}, ${kind}, '{}', '')`);
  const drop = async (robot_id: string, minutes: number) => {
    await entry(robot_id, "robot.disconnected");
    await it.clock.advance({ minutes });
    await entry(robot_id, "robot.connected");
  };
  await entry(second.robot_id, "robot.disconnected");
  await drop(first.robot_id, 20);
  await entry(second.robot_id, "robot.connected");
  await it.clock.advance({ minutes: 60 });
  await drop(first.robot_id, 5);
  await drop(first.robot_id, 20);
  await entry(second.robot_id, "robot.disconnected");
  await it.clock.advance({ minutes: 15 });
  const past = async (body: object) =>
    (await it.call<AlertRuleTest>("POST", "/api/alert-rules", { ...OFFLINE, for_seconds: 600, dry_run: true, ...body })).body.data.past;
  const since = new Date(it.clock.now().getTime() - 7 * 86_400_000).toISOString();
  assert.deepEqual(await past({}), { since, match_count: 4, incident_count: 4 }, "each robot is at its own site");
  assert.deepEqual(await past({ fleet_id: first.fleet_id }), { since, match_count: 2, incident_count: 2 });
  assert.deepEqual(await past({ fleet_id: online.fleet_id }), { since, match_count: 0, incident_count: 0 });
  await db.run(sql`update robot set site_id = ${first.site_id}, fleet_id = ${first.fleet_id} where org_id = ${it.org_id}`);
  assert.deepEqual(await past({}), { since, match_count: 4, incident_count: 3 }, "the first two matches are one incident");
  const now = it.clock.now();
  for (const [deployment_id, status] of [
    ["dep_1", "failed"],
    ["dep_2", "applied"],
  ] as const)
    await db.run(sql`
      insert into deployment (org_id, id, kind, target_kind, fleet_id, status, created_by, finished_at, created_at, updated_at)
      values (${it.org_id}, ${deployment_id}, 'release', 'fleet', ${first.fleet_id}, ${status}, '{}', ${now}, ${now}, ${now})`);
  const failed = { condition: { type: "deployment_failed" }, for_seconds: 0 };
  assert.deepEqual(await past(failed), { since, match_count: 1, incident_count: 1 });
  assert.deepEqual(await past({ ...failed, fleet_id: first.fleet_id, site_id: first.site_id }), {
    since,
    match_count: 1,
    incident_count: 1,
  });
  assert.deepEqual(await past({ ...failed, fleet_id: second.fleet_id }), { since, match_count: 0, incident_count: 0 });
  assert.equal(await past({ condition: { type: "config_drift" } }), null);
});
