import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ROLES, type Role } from "@roamfleet/protocol";
import { type Route, routes } from "@roamfleet/protocol/routes";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { askRoute } from "./ask-route.ts";
import { makeThings, sampleRequest } from "./sample-requests.ts";

const LIMIT = { timeout: 300_000 };
const plane = await startPlane();
after(() => plane[Symbol.asyncDispose]());

const isRole = (access: Route["access"]): access is Role => (ROLES as readonly string[]).includes(access);
const all: Route[] = Object.values(routes);
const portal = all.filter(({ access }) => isRole(access));

test("service admin routes refuse org tokens of every role", LIMIT, async () => {
  const things = await makeThings(await plane.org(), plane.clock.now());
  const admin_routes = all.filter(({ access }) => access === "service_admin");
  assert.ok(admin_routes.length >= 4);
  for (const route of admin_routes) {
    for (const role of ROLES) {
      const token = await things.org.token({ role });
      assert.match(
        (await askRoute(plane, route, sampleRequest(route, things), { token })).refusal,
        /^403 forbidden/,
        `${role}: ${route.path}`,
      );
    }
    const reply = await askRoute(plane, route, sampleRequest(route, things), { token: ADMIN_TOKEN });
    assert.ok([200, 201, 409].includes(reply.status), `${route.path} answered ${reply.status}`);
  }
});

test("robot routes refuse org and admin tokens, and all other routes refuse robots", LIMIT, async () => {
  const things = await makeThings(await plane.org(), plane.clock.now());
  const robots = all.filter(({ access }) => access === "robot");
  assert.ok(robots.length >= 2);
  for (const route of robots) {
    const request = sampleRequest(route, things);
    for (const token of [things.org.admin_token, ADMIN_TOKEN])
      assert.match((await askRoute(plane, route, request, { token })).refusal, /^401 unauthorized/);
    assert.equal((await things.robot.get(request.path)).status, 200, request.path);
  }
  for (const route of portal.filter(({ method }) => method === "GET")) {
    assert.equal((await things.robot.get(sampleRequest(route, things).path)).status, 401, route.path);
  }
});
