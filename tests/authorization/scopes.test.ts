import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { startPlane } from "../harness/index.ts";
import { Http } from "../spec/http.ts";
import { opened } from "../spec/web-socket.ts";
import { userToken } from "./columns.ts";

const LIMIT = { timeout: 300_000 };
const plane = await startPlane();
after(() => plane[Symbol.asyncDispose]());

/** Creates two sites, the first with two fleets, and a robot in each fleet. */
async function ground() {
  const org = await plane.org();
  const [site_a, site_b] = [await org.site(), await org.site()];
  const [a1, a2, b] = [await org.fleet({ site_id: site_a }), await org.fleet({ site_id: site_a }), await org.fleet({ site_id: site_b })];
  const robots = {
    a1: await org.enrollRobot({ fleet_id: a1 }),
    a2: await org.enrollRobot({ fleet_id: a2 }),
    b: await org.enrollRobot({ fleet_id: b }),
  };
  return { org, site_a, site_b, a1, a2, b, robots };
}

const keyed = (key: string = randomUUID()) => ({ "idempotency-key": key });
const idsOf = (items: Record<string, unknown>[]): unknown[] => items.map(({ id }) => id).toSorted();

test("a viewer of the org who operates one site can deploy only to that site", LIMIT, async () => {
  const { org, site_a, a1, b, robots } = await ground();
  const grants = [
    { role: "viewer" as const, scopes: [] },
    { role: "operator" as const, scopes: [{ site_id: site_a }] },
  ];
  const http = new Http(plane, await userToken(plane, org, grants, "operator", []));
  const release = await org.release();
  const refused = await http.post("/api/deployments", { release: release.id, fleet_id: b }, keyed());
  assert.equal(refused.refusal, "403 forbidden: this needs the role operator; the token has viewer for this object");
  assert.equal((await http.post("/api/deployments", { release: release.id, fleet_id: a1 }, keyed())).status, 201);
  // To move a robot, a caller needs the role in the old and in the new fleet.
  assert.equal((await http.send("PATCH", `/api/robots/${robots.a1.id}`, { body: { fleet_id: b } })).status, 403);
  assert.equal((await http.send("PATCH", `/api/robots/${robots.b.id}`, { body: { fleet_id: a1 } })).status, 403);
  assert.equal(new Set(idsOf((await http.get("/api/robots")).items)).size, 3);
  assert.equal((await http.post("/api/sites", { name: "One more" })).status, 403);
});

test("a user with access to one fleet sees its site, but no other fleet of that site", LIMIT, async () => {
  const { org, site_a, a1, a2, robots } = await ground();
  const http = new Http(plane, await org.token({ role: "admin", scopes: [{ fleet_id: a1 }] }));
  const { data: site } = await http.get(`/api/sites/${site_a}`);
  assert.deepEqual([site.robot_count, site.online_count], [1, 1]);
  assert.deepEqual(
    (await http.get("/api/sites")).items.map(({ id, robot_count }) => [id, robot_count]),
    [[site_a, 1]],
  );
  assert.deepEqual(idsOf((await http.get(`/api/fleets?site_id=${site_a}`)).items), [a1]);
  assert.deepEqual(idsOf((await http.get(`/api/robots?site_id=${site_a}`)).items), [robots.a1.id]);
  assert.equal((await http.get(`/api/robots?fleet_id=${a2}`)).status, 404);
  assert.equal((await http.send("PATCH", `/api/sites/${site_a}`, { body: { name: "Mine" } })).status, 403);
  assert.equal((await http.post("/api/fleets", { name: "Mine too", site_id: site_a })).status, 403);
});

test("all users see config values of the org, but other values only within their scope", LIMIT, async () => {
  const { org, site_a, a1, b, robots } = await ground();
  const set = async (scope: "org" | "site" | "fleet" | "robot", scope_id?: string) =>
    (
      await org.api.setConfig({
        body: { key: `of ${scope_id ?? scope}`, value: 1, scope, ...(scope_id === undefined ? {} : { scope_id }) },
      })
    ).data.id;
  const of_org = await set("org");
  const [of_site, of_a1, of_a2_robot, of_b] = [
    await set("site", site_a),
    await set("fleet", a1),
    await set("robot", robots.a2.id),
    await set("fleet", b),
  ];
  const on_site = new Http(plane, await org.token({ role: "admin", scopes: [{ site_id: site_a }] }));
  const on_fleet = new Http(plane, await org.token({ role: "admin", scopes: [{ fleet_id: a1 }] }));
  assert.deepEqual(idsOf((await on_site.get("/api/configs")).items), [of_org, of_site, of_a1, of_a2_robot].toSorted());
  assert.deepEqual(idsOf((await on_fleet.get("/api/configs")).items), [of_org, of_a1].toSorted());
  assert.equal((await on_fleet.get(`/api/configs/${of_org}`)).status, 200);
  assert.equal((await on_fleet.get(`/api/configs/${of_site}`)).status, 404);
  assert.equal((await on_site.get(`/api/configs/${of_b}`)).status, 404);
  assert.equal((await on_site.send("DELETE", `/api/configs/${of_org}`)).status, 403);
  assert.equal((await on_site.post("/api/configs", { key: "speed", value: 2 })).status, 403);
});

test("a user of a fleet sees its deployments without the targets of robots that have left it", LIMIT, async () => {
  const { org, a1, a2, b } = await ground();
  const mover = await org.enrollRobot({ fleet_id: a1 });
  const release = await org.release();
  const [ours, others] = [await org.deploy(release, { fleet_id: a1 }), await org.deploy(release, { fleet_id: b })];
  await plane.until("every robot to have it", async () => (await org.deployment(ours.id)).finished_at !== null);
  const http = new Http(plane, await org.token({ role: "viewer", scopes: [{ fleet_id: a1 }] }));
  assert.deepEqual(idsOf((await http.get("/api/deployments")).items), [ours.id]);
  assert.equal((await http.get(`/api/deployments/${others.id}/events`)).status, 404);
  assert.equal((await http.get(`/api/deployments/${ours.id}/targets`)).items.length, 2);
  const isListed = async (): Promise<boolean> =>
    (await http.get(`/api/deployments/${ours.id}/events?include=targets&limit=1000`)).items.some(({ robot_id }) => robot_id === mover.id);
  assert.ok(await isListed());
  await org.api.updateRobot({ params: { id: mover.id }, body: { fleet_id: a2 } });
  const left = (await http.get(`/api/deployments/${ours.id}/targets`)).items.map(({ robot_id }) => robot_id);
  assert.ok(left.length === 1 && !left.includes(mover.id));
  assert.equal(await isListed(), false);
});

test("list pages contain all objects within the user's scope in order, and skip all others", LIMIT, async () => {
  const { org, a1, b, robots } = await ground();
  const mine = [robots.a1.id];
  for (let made = 0; made < 6; made += 1) {
    mine.push((await org.enrollRobot({ fleet_id: a1, online: false })).id);
    await org.enrollRobot({ fleet_id: b, online: false });
  }
  const http = new Http(plane, await org.token({ role: "viewer", scopes: [{ fleet_id: a1 }] }));
  const seen: unknown[] = [];
  let next = "/api/robots?limit=3";
  for (let pages = 0; pages < 10 && next !== ""; pages += 1) {
    const { items, body } = await http.get(next);
    seen.push(...items.map(({ id }) => id));
    next = body.next_cursor === null ? "" : `/api/robots?limit=3&cursor=${body.next_cursor as string}`;
  }
  assert.deepEqual(seen, mine.toSorted().toReversed());
});

test("refuses to replay another user's request to a caller without permission for it", LIMIT, async () => {
  const { org, site_b, a1 } = await ground();
  const body = { release: (await org.release()).id, fleet_id: a1 };
  const key = randomUUID();
  assert.equal((await new Http(plane, org.admin_token).post("/api/deployments", body, keyed(key))).status, 201);
  const outside = new Http(plane, await org.token({ role: "operator", scopes: [{ site_id: site_b }] }));
  assert.equal((await outside.post("/api/deployments", body, keyed(key))).status, 404);
});

test("a stream ends when its robot is moved out of the token's scope", LIMIT, async () => {
  const { org, a1, b, robots } = await ground();
  const token = await org.token({ role: "viewer", scopes: [{ fleet_id: a1 }] });
  const stream = await opened(`${plane.url}/api/robots/${robots.a1.id}/logs/ws`, { authorization: `Bearer ${token}` });
  await org.api.updateRobot({ params: { id: robots.a1.id }, body: { fleet_id: b } });
  assert.equal((await stream.closed).code, 4403);
});
