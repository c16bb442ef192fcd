import assert from "node:assert/strict";
import { test } from "node:test";
import type { AlertMute, AlertRule, Incident } from "@roamfleet/protocol/routes";
import { int, nullable, row, sql, timestamptz } from "../../kernel/sql.ts";
import { dropIncidents } from "./index.ts";
import { startAlertPlane } from "./testing/alert-plane.ts";

const TIMEOUT = { timeout: 120_000 };
const OFFLINE = { name: "Offline", condition: { type: "robot_offline" }, severity: "warning" };
const notifiedRow = row({ notified_at: nullable(timestamptz) });

/** Starts a plane with two robots of one site; the first goes offline, which opens an incident. `mute` runs before. */
async function openIncident(mute: (it: Awaited<ReturnType<typeof startAlertPlane>>, fleets: string[], rule_id: string) => Promise<object>) {
  const it = await startAlertPlane();
  const [robot, other] = await it.robots(2);
  assert.ok(robot !== undefined && other !== undefined);
  await it.db.run(sql`update robot set site_id = ${robot.site_id} where org_id = ${it.org_id}`);
  await it.db.run(sql`update fleet set site_id = ${robot.site_id} where org_id = ${it.org_id}`);
  const rule = (await it.call<AlertRule>("POST", "/api/alert-rules", OFFLINE)).body.data;
  const until_at = new Date(it.clock.now().getTime() + 3_600_000).toISOString();
  const body = { until_at, ...(await mute(it, [robot.fleet_id, other.fleet_id], rule.id)) };
  const made = await it.call<AlertMute>("POST", "/api/alert-mutes", body);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await it.setOnline(robot.robot_id, false);
  await it.clock.advance({ minutes: 2 });
  const notified = async () =>
    (await it.db.one(sql(notifiedRow)`select notified_at from incident where org_id = ${it.org_id}`)).notified_at !== null;
  return { it, mute: made.body.data, robot, other, notified };
}

for (const [what, expected, mute] of [
  ["of everything", true, async () => ({})],
  ["of the rule", true, async (_: unknown, __: unknown, rule_id: string) => ({ rule_id })],
  ["of the fleet of all offline robots", true, async (_: unknown, [fleet_id]: string[]) => ({ fleet_id })],
  ["of another fleet", false, async (_: unknown, [, fleet_id]: string[]) => ({ fleet_id })],
  ["that begins later", false, async () => ({ from_at: "2030-01-01T00:30:00Z" })],
] as const)
  test(`a mute ${what} ${expected ? "delays" : "does not delay"} the message of an incident`, TIMEOUT, async () => {
    const { it, mute: made, notified } = await openIncident(mute);
    await using _ = it;
    assert.equal((await it.items<Incident>("/api/incidents?status=open")).length, 1, "an incident is opened in any case");
    assert.equal(await notified(), !expected);
    assert.deepEqual(
      (await it.items<AlertMute>("/api/alert-mutes")).map(({ id }) => id),
      [made.id],
    );
    assert.equal((await it.call("DELETE", `/api/alert-mutes/${made.id}`)).status, 200);
    await it.clock.advance({ seconds: 20 });
    assert.equal(await notified(), true);
  });

test("a mute of a fleet does not hide that a robot of another fleet joins the incident", TIMEOUT, async () => {
  const { it, other, notified } = await openIncident(async (_, [fleet_id]) => ({ fleet_id }));
  await using _ = it;
  assert.equal(await notified(), false);
  await it.setOnline(other.robot_id, false);
  await it.clock.advance({ seconds: 20 });
  assert.equal(await notified(), true);
});

test("a mute ends at its time, and is no longer listed", TIMEOUT, async () => {
  const { it, notified } = await openIncident(async () => ({ reason: "Maintenance" }));
  await using _ = it;
  await it.clock.advance({ hours: 1 });
  assert.equal(await notified(), true);
  assert.deepEqual(await it.items("/api/alert-mutes"), []);
});

test("a caller of a fleet mutes only that fleet and its rules", TIMEOUT, async () => {
  await using it = await startAlertPlane();
  const [own, other] = await it.robots(2);
  assert.ok(own !== undefined && other !== undefined);
  const rule = async (name: string, scope: object) =>
    (await it.call<AlertRule>("POST", "/api/alert-rules", { ...OFFLINE, name, ...scope })).body.data.id;
  const [everywhere, mine] = [await rule("Everywhere", {}), await rule("Mine", { fleet_id: own.fleet_id })];
  const by = await it.scoped({ fleet_id: own.fleet_id });
  const mute = async (body: object, token = by) =>
    await it.call<AlertMute>("POST", "/api/alert-mutes", { until_at: "2030-01-02T00:00:00Z", ...body }, token);
  assert.equal((await mute({})).status, 400);
  assert.equal((await mute({ fleet_id: other.fleet_id })).status, 404);
  assert.equal((await mute({ rule_id: everywhere })).status, 403);
  assert.equal((await mute({ fleet_id: own.fleet_id })).body.data.site_id, own.site_id);
  assert.equal((await mute({ rule_id: mine })).body.data.fleet_id, own.fleet_id);
  const all = (await mute({}, it.token)).body.data.id;
  const foreign = (await mute({ fleet_id: other.fleet_id }, it.token)).body.data.id;
  assert.equal((await it.items("/api/alert-mutes", by)).length, 3);
  assert.equal((await it.call("DELETE", `/api/alert-mutes/${all}`, undefined, by)).status, 403);
  assert.equal((await it.call("DELETE", `/api/alert-mutes/${foreign}`, undefined, by)).status, 404);
  assert.equal((await mute({ until_at: "2029-01-01T00:00:00Z" }, it.token)).status, 400);
});

test("deletes incidents with their members and history some days after their resolution", TIMEOUT, async () => {
  const { it, robot } = await openIncident(async () => ({}));
  await using _ = it;
  await it.setOnline(robot.robot_id, true);
  await it.clock.advance({ hours: 1 });
  const countRow = row({ count: int });
  const count = async () =>
    (
      await it.db.one(sql(countRow)`
        select (select count(*) from incident where org_id = ${it.org_id})::int + (select count(*) from incident_member where org_id = ${it.org_id})::int
          + (select count(*) from incident_entry where org_id = ${it.org_id})::int
          + (select count(*) from alert_mute where org_id = ${it.org_id})::int as count`)
    ).count;
  const { resolved_at } = (await it.items<Incident>("/api/incidents"))[0]!;
  assert.equal(await count(), 1 + 1 + 2 + 1);
  await dropIncidents(it.plane, new Date(resolved_at!));
  assert.equal(await count(), 5);
  await dropIncidents(it.plane, it.clock.now());
  assert.equal(await count(), 0);
});
