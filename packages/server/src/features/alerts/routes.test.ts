import assert from "node:assert/strict";
import { test } from "node:test";
import type { AlertRule, Incident } from "@roamfleet/protocol/routes";
import { row, sql, text } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { createCredential } from "../tokens/index.ts";
import { alertRoutes, createDefaultRules, startAlerts } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type List<T> = { items: T[] };

test("lists rules and incidents of the caller's org, filtered and within its scope", TIMEOUT, async () => {
  await using it = await startFeaturePlane([alertRoutes]);
  const { plane } = it;
  const [{ org_id, token }, other] = [await it.org({ role: "viewer" }), await it.org({ role: "viewer" })];
  await createDefaultRules(plane.db, plane, org_id);
  const [here, there] = [await seedRobot(plane, org_id), await seedRobot(plane, org_id)];
  await plane.db.run(sql`update robot set connected_at = ${it.clock.now()} where org_id = ${org_id}`);
  await plane.db.run(sql`
    update alert_rule set for_seconds = 0, fleet_id = ${there.fleet_id}
    where org_id = ${org_id} and condition ->> 'type' = 'robot_offline'`);
  await plane.db.run(sql`
    insert into alert_rule (org_id, id, name, condition, for_seconds, severity, created_at, updated_at)
    values (${org_id}, 'alr_1', 'All', '{"type": "robot_offline"}', 0, 'critical', ${it.clock.now()}, ${it.clock.now()})`);
  const loop = startAlerts(plane);
  await it.clock.advance({ seconds: 10 });
  await loop.stop();
  const titles = async (query: string, by = token) =>
    (await it.call<List<Incident>>("GET", `/api/incidents?${query}`, { token: by })).body.items.map(({ title }) => title).toSorted();
  const scoped = async (scope: { site_id?: string; fleet_id?: string }) =>
    (await createCredential(plane.db, plane, { kind: "org", org_id, role: "viewer", label: "scoped", scopes: [scope] })).secret;
  assert.deepEqual(await titles(""), ["All", "All", "Robot offline"]);
  assert.deepEqual(await titles("severity=critical&status=open"), ["All", "All"]);
  assert.deepEqual(await titles("status=resolved"), []);
  assert.deepEqual(await titles(`site_id=${here.site_id}`), ["All"]);
  assert.deepEqual(await titles("", await scoped({ site_id: here.site_id })), ["All"]);
  assert.deepEqual(await titles("", await scoped({ site_id: there.site_id })), ["All", "Robot offline"]);
  assert.deepEqual(await titles("", await scoped({ fleet_id: there.fleet_id })), ["Robot offline"]);
  assert.deepEqual(await titles("", await scoped({ fleet_id: here.fleet_id })), []);
  assert.deepEqual(await titles("", other.token), []);
  assert.equal((await it.call("GET", `/api/incidents?site_id=${here.site_id}`, { token: other.token })).status, 404);
  assert.deepEqual(await titles("rule_id=alr_1"), ["All", "All"]);
  await plane.db.run(sql`delete from alert_rule where org_id = ${org_id} and id = 'alr_1'`);
  assert.deepEqual(await titles("rule_id=alr_1"), ["All", "All"], "a deleted rule");
  assert.deepEqual(await titles("rule_id=alr_1", await scoped({ site_id: here.site_id })), ["All"]);
  const refusal = async (rule_id: string, by: string): Promise<string> => {
    const { status, body } = await it.call("GET", `/api/incidents?rule_id=${rule_id}`, { token: by });
    return `${status} ${body.error.message.replace(rule_id, "ID")}`;
  };
  const limited = await scoped({ fleet_id: here.fleet_id });
  const missing = await refusal("alr_2", token);
  assert.match(missing, /^404 /);
  for (const [rule_id, by] of [
    ["alr_1", limited],
    ["alr_1", other.token],
    ["alr_2", limited],
    // The rule of another fleet, which exists.
    [(await plane.db.one(sql(row({ id: text }))`select id from alert_rule where fleet_id = ${there.fleet_id}`)).id, limited],
  ] as const)
    assert.equal(await refusal(rule_id, by), missing);
  const rules = (await it.call<List<AlertRule>>("GET", "/api/alert-rules", { token })).body.items;
  assert.equal(rules.length, 6);
  assert.deepEqual(rules.find(({ name }) => name === "Disk almost full")?.condition, { type: "disk_above", percent: 90 });
  assert.deepEqual(
    (await it.call<List<AlertRule>>("GET", "/api/alert-rules", { token: other.token })).body.items.map(({ name }) => name).length,
    6,
  );
});
