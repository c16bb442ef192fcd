import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fleet, Site } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { fleetRoutes } from "../fleets/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { siteRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const start = () => startFeaturePlane([siteRoutes, fleetRoutes]);

async function createSite(it: FeaturePlane, token: string, name: string): Promise<Site> {
  const { status, body } = await it.call<{ data: Site }>("POST", "/api/sites", { token, body: { name } });
  assert.equal(status, 201);
  return body.data;
}

async function createFleet(it: FeaturePlane, token: string, site_id: string, name: string): Promise<Fleet> {
  const { status, body } = await it.call<{ data: Fleet }>("POST", "/api/fleets", { token, body: { name, site_id } });
  assert.equal(status, 201);
  return body.data;
}

let robots = 0;
async function putRobot(
  it: FeaturePlane,
  org_id: string,
  fleet: Fleet,
  state: { online?: boolean; decommissioned?: boolean } = {},
): Promise<void> {
  robots += 1;
  const now = it.clock.now();
  await it.plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, node_id, decommissioned_at, created_at, updated_at)
    values (${org_id}, ${`rob_${robots}`}, 'r', ${fleet.site_id}, ${fleet.id}, ${Buffer.alloc(32, robots)}, ${state.online === true ? "node_a" : null},
      ${state.decommissioned === true ? now : null}, ${now}, ${now})`);
}

test("creates, reads, renames and deletes a site", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const made = await it.call<{ data: Site }>("POST", "/api/sites", { token, body: { name: "Hangar 7 – Süd" } });
  assert.equal(made.status, 201);
  const site = made.body.data;
  assert.equal(made.headers["location"], `/api/sites/${site.id}`);
  assert.deepEqual(site, {
    id: site.id,
    name: "Hangar 7 – Süd",
    robot_count: 0,
    online_count: 0,
    created_at: "2030-01-01T00:00:00.000Z",
    updated_at: "2030-01-01T00:00:00.000Z",
  });
  assert.deepEqual((await it.call<{ data: Site }>("GET", `/api/sites/${site.id}`, { token })).body.data, site);
  await it.clock.advance({ seconds: 1 });
  const renamed = await it.call<{ data: Site }>("PATCH", `/api/sites/${site.id}`, { token, body: { name: "Hangar 8" } });
  assert.deepEqual([renamed.body.data.name, renamed.body.data.updated_at], ["Hangar 8", "2030-01-01T00:00:01.000Z"]);
  assert.equal((await it.call("PATCH", `/api/sites/${site.id}`, { token, body: {} })).status, 200);
  assert.equal((await it.call("DELETE", `/api/sites/${site.id}`, { token })).status, 200);
  assert.equal((await it.call("GET", `/api/sites/${site.id}`, { token })).status, 404);
});

test("returns 409 for a site name that another site of the org has", TIMEOUT, async () => {
  await using it = await start();
  const [{ token }, other] = [await it.org(), await it.org()];
  await createSite(it, token, "North");
  const south = await createSite(it, token, "South");
  await createSite(it, other.token, "North");
  const again = await it.call("POST", "/api/sites", { token, body: { name: "North" } });
  assert.equal(again.status, 409);
  assert.match(again.body.error.message, /name.*North/);
  assert.equal((await it.call("PATCH", `/api/sites/${south.id}`, { token, body: { name: "North" } })).status, 409);
  assert.equal((await it.call("PATCH", `/api/sites/${south.id}`, { token, body: { name: "South" } })).status, 200);
});

test("returns 404 for another org's sites and fleets, on every route", TIMEOUT, async () => {
  await using it = await start();
  const [{ token }, other] = [await it.org(), await it.org()];
  const site = await createSite(it, other.token, "Other");
  const fleet = await createFleet(it, other.token, site.id, "Other");
  for (const [method, url, body] of [
    ["GET", `/api/sites/${site.id}`],
    ["PATCH", `/api/sites/${site.id}`, { name: "x" }],
    ["DELETE", `/api/sites/${site.id}`],
    ["GET", `/api/fleets/${fleet.id}`],
    ["PATCH", `/api/fleets/${fleet.id}`, { follow: false }],
    ["DELETE", `/api/fleets/${fleet.id}`],
    ["GET", `/api/fleets?site_id=${site.id}`],
    ["POST", "/api/fleets", { name: "x", site_id: site.id }],
    ["GET", "/api/sites/rob_1"],
    ["GET", "/api/sites/%00"],
  ] as const) {
    const { status, body: answer } = await it.call(method, url, { token, body });
    assert.deepEqual([method, url, status, answer.error.code], [method, url, 404, "not_found"]);
  }
  assert.deepEqual((await it.call<{ items: Site[] }>("GET", "/api/sites", { token })).body.items, []);
  assert.equal((await it.call("GET", `/api/sites/${site.id}`, { token: other.token })).status, 200);
});

test("returns 403 when a viewer creates or an operator deletes a site", TIMEOUT, async () => {
  await using it = await start();
  const [viewer, operator] = [await it.org({ role: "viewer" }), await it.org({ role: "operator" })];
  assert.equal((await it.call("POST", "/api/sites", { token: viewer.token, body: { name: "x" } })).status, 403);
  const site = await createSite(it, operator.token, "x");
  assert.equal((await it.call("DELETE", `/api/sites/${site.id}`, { token: operator.token })).status, 403);
});

test("counts all and online robots by site and fleet, without decommissioned ones", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org();
  const [a, b] = [await createSite(it, token, "A"), await createSite(it, token, "B")];
  const [a1, a2, b1] = [
    await createFleet(it, token, a.id, "one"),
    await createFleet(it, token, a.id, "two"),
    await createFleet(it, token, b.id, "one"),
  ];
  await putRobot(it, org_id, a1, { online: true });
  await putRobot(it, org_id, a1);
  await putRobot(it, org_id, a2);
  await putRobot(it, org_id, a2, { decommissioned: true });
  const sites = (await it.call<{ items: Site[] }>("GET", "/api/sites", { token })).body.items;
  assert.deepEqual(
    sites.map((site) => [site.name, site.robot_count, site.online_count]),
    [
      ["B", 0, 0],
      ["A", 3, 1],
    ],
  );
  const fleets = (await it.call<{ items: Fleet[] }>("GET", "/api/fleets", { token })).body.items;
  assert.deepEqual(
    fleets.map((fleet) => [fleet.id, fleet.robot_count, fleet.online_count]),
    [
      [b1.id, 0, 0],
      [a2.id, 1, 0],
      [a1.id, 2, 1],
    ],
  );
  assert.equal((await it.call<{ data: Site }>("GET", `/api/sites/${a.id}`, { token })).body.data.robot_count, 3);
  assert.equal((await it.call<{ data: Fleet }>("GET", `/api/fleets/${a1.id}`, { token })).body.data.online_count, 1);
  assert.deepEqual(
    (await it.call<{ items: Fleet[] }>("GET", `/api/fleets?site_id=${b.id}&q=ON`, { token })).body.items.map(({ id }) => id),
    [b1.id],
  );
});

test("returns 409 for deleting a site with a fleet, or a fleet with a robot that is not decommissioned", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org();
  const site = await createSite(it, token, "A");
  const fleet = await createFleet(it, token, site.id, "one");
  await putRobot(it, org_id, fleet);
  assert.equal((await it.call("DELETE", `/api/sites/${site.id}`, { token })).status, 409);
  assert.equal((await it.call("DELETE", `/api/fleets/${fleet.id}`, { token })).status, 409);
  await it.plane.db.run(sql`update robot set decommissioned_at = ${it.clock.now()} where org_id = ${org_id}`);
  assert.equal((await it.call("DELETE", `/api/fleets/${fleet.id}`, { token })).status, 200);
  assert.equal((await it.call("DELETE", `/api/sites/${site.id}`, { token })).status, 200);
});

test("a fleet name is unique within its site, and PATCH changes only the given fields", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const [a, b] = [await createSite(it, token, "A"), await createSite(it, token, "B")];
  const fleet = await createFleet(it, token, a.id, "one");
  assert.deepEqual([fleet.follow, fleet.desired, fleet.config_revision], [true, {}, null]);
  await createFleet(it, token, b.id, "one");
  assert.equal((await it.call("POST", "/api/fleets", { token, body: { name: "one", site_id: a.id } })).status, 409);
  const patched = await it.call<{ data: Fleet }>("PATCH", `/api/fleets/${fleet.id}`, { token, body: { follow: false } });
  assert.deepEqual([patched.body.data.follow, patched.body.data.name], [false, "one"]);
  const second = await createFleet(it, token, a.id, "two");
  assert.equal((await it.call("PATCH", `/api/fleets/${second.id}`, { token, body: { name: "one" } })).status, 409);
});

test("returns 400 with the name of the missing, empty, unknown or invalid field", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  for (const [body, field] of [
    [{}, "name"],
    [{ name: "" }, "name"],
    [{ name: " x" }, "name"],
    [{ name: "a\nb" }, "name"],
    [{ name: 7 }, "name"],
    [{ name: "x".repeat(201) }, "name"],
    [{ name: "x", nmae: "y" }, "nmae"],
  ] as const) {
    const { status, body: answer } = await it.call("POST", "/api/sites", { token, body });
    assert.equal(status, 400, JSON.stringify(body));
    assert.match(answer.error.message, new RegExp(field));
  }
  assert.equal((await it.call("GET", "/api/sites?limt=3", { token })).status, 400);
  assert.equal((await it.call("GET", "/api/sites?limit=0", { token })).status, 400);
});

test("pages by cursor neither repeat nor skip rows while others are created", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  for (let i = 0; i < 7; i += 1) await createSite(it, token, `S${i}`);
  const seen: string[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const url: string = `/api/sites?limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const { body }: { body: { items: Site[]; next_cursor: string | null } } = await it.call("GET", url, { token });
    seen.push(...body.items.map(({ name }) => name));
    cursor = body.next_cursor;
    await createSite(it, token, `new ${seen.length}`);
  }
  assert.deepEqual(seen, ["S6", "S5", "S4", "S3", "S2", "S1", "S0"]);
});
