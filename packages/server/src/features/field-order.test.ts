import assert from "node:assert/strict";
import { test } from "node:test";
import { routes, type Route } from "@roamfleet/protocol/routes";
import { sql } from "../kernel/sql.ts";
import { configRoutes } from "./configs/index.ts";
import { enrollmentRoutes } from "./enrollment/index.ts";
import { fleetRoutes } from "./fleets/index.ts";
import { orgRoutes } from "./orgs/index.ts";
import { robotRoutes } from "./robots/index.ts";
import { siteRoutes } from "./sites/index.ts";
import { startFeaturePlane } from "./testing/feature-plane.ts";
import { seedRobot } from "./testing/seed-robot.ts";
import { tokenRoutes } from "./tokens/index.ts";
import { userRoutes } from "./users/index.ts";

interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
}
type Fields = Record<string, unknown>;

const inOrder = (schema: Schema | undefined, value: Fields): string[] =>
  Object.keys(schema?.properties ?? {}).filter((name) => Object.hasOwn(value, name));

test("response fields have the order of the API document", { timeout: 120_000 }, async () => {
  const features = [siteRoutes, fleetRoutes, enrollmentRoutes, tokenRoutes, userRoutes, configRoutes, orgRoutes, robotRoutes];
  await using it = await startFeaturePlane(features);
  const { token, org_id } = await it.org();
  const call = async (route: Route, body?: object, id = ""): Promise<Fields[]> => {
    const reply = await it.call<{ data?: Fields; items?: Fields[] }>(route.method, route.path.replace("{id}", id), { token, body });
    const { data, items } = (route.responses[reply.status] as Schema | undefined)?.properties ?? {};
    const rows = reply.body.items ?? [reply.body.data ?? assert.fail(`${route.name} returned ${reply.status}`)];
    assert.ok(rows.length > 0, route.name);
    for (const row of rows) assert.deepEqual(Object.keys(row), inOrder(data ?? items?.items, row), route.name);
    return rows;
  };
  const [site] = await call(routes.createSite, { name: "Hall" });
  const [fleet] = await call(routes.createFleet, { name: "Carts", site_id: site!["id"] });
  await call(routes.createEnrollmentKey, { site_id: site!["id"], fleet_id: fleet!["id"] });
  await call(routes.createToken, { label: "ci", role: "viewer" });
  await call(routes.createUser, { email: "ada@example.org", name: "Ada", role: "operator" });
  const [config] = await call(routes.setConfig, { key: "speed", value: 1 });
  await call(routes.listConfigHistory, undefined, String(config!["id"]));
  const { robot_id } = await seedRobot(it.plane, org_id, { site_id: String(site!["id"]), fleet_id: String(fleet!["id"]) });
  await it.plane.db.run(
    sql`insert into robot_app (org_id, robot_id, app, updated_at) values (${org_id}, ${robot_id}, 'main', ${it.clock.now()})`,
  );
  const [robot] = await call(routes.getRobot, undefined, robot_id);
  const [app] = robot!["apps"] as Fields[];
  assert.deepEqual(Object.keys(app!), ["app", "current", "desired", "status", "release_state"]);
  for (const route of [routes.getSite, routes.getFleet])
    await call(route, undefined, String((route === routes.getSite ? site : fleet)!["id"]));
  const { listSites, listFleets, listEnrollmentKeys, listTokens, listUsers, listConfigs, listRobots, getOrg } = routes;
  for (const route of [listSites, listFleets, listEnrollmentKeys, listTokens, listUsers, listConfigs, listRobots, getOrg])
    await call(route);
});
