import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import { type Route, routes } from "@roamfleet/protocol/routes";
import { askRoute } from "../authorization/ask-route.ts";
import { idFields, makeThings, type SampleRequest, sampleRequest, type Things } from "../authorization/sample-requests.ts";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";

const LIMIT = { timeout: 240_000 };
const FILE = path.join(import.meta.dirname, "uncovered-routes.txt");
const plane = await startPlane({ limits: { unknown_requests_per_minute: 1_000_000 } });
after(() => plane[Symbol.asyncDispose]());
const ours = await makeThings(plane.default_org, plane.clock.now());
const other_things = await makeThings(await plane.org(), plane.clock.now());

/** Returns a client with the credentials that the route requires. */
function rightful(route: Route): { token?: string | undefined; headers?: Record<string, string> } {
  if (route.access === "public" || route.access === "robot") return {};
  return { token: route.access === "service_admin" ? ADMIN_TOKEN : ours.org.admin_token };
}

/** The statuses with which each route has refused a request. */
const seen = new Map<string, Set<number>>();
const note = (route: Route, status: number): void => void (seen.get(route.name) ?? seen.set(route.name, new Set()).get(route.name))?.add(status);

async function expect(route: Route, status: number, request: SampleRequest, credentials: ReturnType<typeof rightful>, names?: string): Promise<void> {
  const reply = await askRoute(plane, route, request, credentials);
  const shown = `${route.method} ${request.path} ${JSON.stringify(request.query)} ${JSON.stringify(request.body)} answered ${reply.text.slice(0, 300)}`;
  assert.equal(reply.status, status, shown);
  const { refusal } = reply;
  if (names !== undefined) assert.ok(refusal.includes(names), `${shown} without naming ${names}`);
  note(route, status);
}

const all: Route[] = Object.values(routes);

for (const route of all) {
  if (route.access !== "public") {
    test(`${route.name} returns 401 without valid credentials of the required kind`, LIMIT, async () => {
      const request = sampleRequest(route, ours);
      await expect(route, 401, request, {});
      const unknown = [`rf_user_${"0".repeat(64)}`, "x", ours.enrollment_key, ours.ids.robot_id ?? ""];
      // Admin routes treat a secret in the form of a portal token as insufficient, not as unknown.
      for (const token of unknown.filter((secret) => route.access !== "service_admin" || !secret.startsWith("rf_"))) await expect(route, 401, request, { token });
      await expect(route, 401, request, { headers: { authorization: "RobotSignature rob_x:1:AA==" } });
    });
  }
  if (idFields(route).length > 0) {
    test(`${route.name} returns 404 for missing objects and those of another org`, LIMIT, () => refusesForeignIds(route));
  }
  test(`${route.name} returns 400 with the name of an unknown or malformed field`, LIMIT, () => refusesMalformed(route));
}

async function refusesForeignIds(route: Route): Promise<void> {
  for (const field of idFields(route)) {
    const foreign = field.place === "path" ? pathIdOf(route, other_things) : other_things.ids[field.name];
    assert.ok(foreign, `${field.name} of ${route.name} has a sample`);
    // The service's admin has access to all orgs, so no object is another org's.
    const values = route.access === "service_admin" ? ["org_none"] : [foreign, "x", `${foreign}0`];
    for (const value of values) {
      const request = sampleRequest(route, ours, { ...field, value });
      if (route.access !== "robot") await expect(route, 404, request, rightful(route));
      else {
        assert.equal((await ours.robot.get(request.path)).status, 404, request.path);
        note(route, 404);
      }
    }
  }
}

const pathIdOf = (route: Route, things: Things): string => decodeURIComponent(sampleRequest(route, things).path.split("/")[route.path.split("/").findIndex((part) => part.startsWith("{"))] ?? "");

async function refusesMalformed(route: Route): Promise<void> {
  const request = sampleRequest(route, ours);
  const unknown = { ...request, query: { ...request.query, no_such_parameter: "1" } };
  if (route.access === "robot") {
    const reply = await ours.robot.get(`${request.path}?no_such_parameter=1`);
    assert.equal(reply.status, 400);
    return note(route, 400);
  }
  await expect(route, 400, unknown, rightful(route), "no_such_parameter");
  for (const [name, schema] of Object.entries(route.query?.properties ?? {})) {
    const wrong = (schema as { type?: string }).type === "integer" ? "many" : "\0";
    await expect(route, 400, { ...request, query: { ...request.query, [name]: wrong } }, rightful(route));
  }
  if (route.body === undefined) return;
  await expect(route, 400, { ...request, body: { ...request.body, no_such_field: 1 } }, rightful(route), "no_such_field");
  for (const name of (route.body.required ?? []) as string[]) {
    const { [name]: _left_out, ...body } = request.body ?? {};
    await expect(route, 400, { ...request, body }, rightful(route), name);
  }
  for (const [name, schema] of Object.entries(route.body.properties)) {
    // Skip a field that accepts any JSON value, because it has no wrong type.
    if (Object.keys(schema).every((key) => key === "description" || key.startsWith("~"))) continue;
    await expect(route, 400, { ...request, body: { ...request.body, [name]: [["wrong"]] } }, rightful(route), name);
  }
}

test("the tests of this file cover 401, 404 and 400 of every route without exceptions", LIMIT, () => {
  const uncovered = all.flatMap((route) => {
    const wanted = [...(route.access === "public" ? [] : [401]), ...(idFields(route).length > 0 ? [404] : []), 400];
    return wanted.filter((status) => !seen.get(route.name)?.has(status)).map((status) => `${route.method} ${route.path} ${status}`);
  });
  assert.deepEqual(uncovered, readFileSync(FILE, "utf8").split("\n").filter((line) => line !== ""));
  assert.deepEqual(uncovered, []);
});
