import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CSRF_HEADER, ROLES, type Role } from "@roamfleet/protocol";
import { type Route, routes } from "@roamfleet/protocol/routes";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { STREAM_NAMES, streamTarget } from "../harness/stream-target.ts";
import { openSocket } from "../spec/web-socket.ts";
import { askRoute, sessionHeaders } from "./ask-route.ts";
import { makeThings, sampleRequest, type Things } from "./sample-requests.ts";

const LIMIT = { timeout: 300_000 };
const plane = await startPlane();
after(() => plane[Symbol.asyncDispose]());

const isRole = (access: Route["access"]): access is Role => (ROLES as readonly string[]).includes(access);
// Send requests that delete objects after the others, and the request that ends the session last.
const order = ({ method, name }: Route): number => (name === "endSession" ? 2 : Number(method === "DELETE" || name === "revokeToken"));
const portal = (Object.values(routes) as Route[]).filter(({ access }) => isRole(access)).toSorted((a, b) => order(a) - order(b));

let things: Things;
let cookie: string;
let session: Record<string, string>;
before(async () => {
  things = await makeThings(await plane.org(), plane.clock.now());
  session = (await sessionHeaders(plane, things.org.admin_token)) ?? {};
  cookie = session["cookie"] ?? "";
});

const ask = (route: Route, headers: Record<string, string>) => askRoute(plane, route, sampleRequest(route, things), { headers });

test("routes that change data refuse a session cookie without CSRF token or from another origin", LIMIT, async () => {
  const changing = portal.filter(({ method }) => method !== "GET");
  assert.ok(changing.length > 30);
  for (const route of changing) {
    const { [CSRF_HEADER]: token = "", origin = "" } = session;
    const forged = [{ cookie }, { cookie, origin }, { cookie, [CSRF_HEADER]: token }, { ...session, origin: "https://evil.example" }];
    for (const headers of forged) assert.match((await ask(route, headers)).refusal, /^403 forbidden: /, `${route.method} ${route.path}`);
  }
});

test("a session cookie gives access to every route of its token, except session creation", LIMIT, async () => {
  for (const route of portal) {
    const { status, text } = await ask(route, route.method === "GET" ? { cookie } : session);
    const is_refused = [401, 403].includes(status);
    assert.equal(is_refused, route.by === "token", `${route.method} ${route.path} answered ${status} ${text.slice(0, 200)}`);
  }
  assert.equal((await ask(routes.getMe, { cookie })).status, 401, "the last one was to sign out");
});

test("a session cookie gives no access to service admin routes or robot routes", LIMIT, async () => {
  const headers = (await sessionHeaders(plane, await things.org.token())) ?? {};
  for (const route of (Object.values(routes) as Route[]).filter(({ access }) => access === "service_admin" || access === "robot"))
    assert.equal((await ask(route, headers)).status, 401, route.path);
  const beside = await ask(routes.listOrgs, { ...headers, "x-service-admin-token": ADMIN_TOKEN });
  assert.equal(beside.status, 200);
});

test("a WebSocket accepts the session cookie only from pages of the same origin", LIMIT, async () => {
  const org = await plane.org();
  const robot = await org.enrollRobot();
  const own = (await sessionHeaders(plane, org.admin_token)) ?? {};
  const mine = { cookie: own["cookie"] ?? "", origin: own["origin"] ?? "" };
  for (const name of STREAM_NAMES) {
    const [path, url] = [streamTarget(name, robot.id), plane.url + streamTarget(name, robot.id)];
    for (const origin of ["https://evil.example", "null", `${mine.origin}0`, undefined]) {
      const refused = await openSocket(url, { cookie: mine.cookie, ...(origin === undefined ? {} : { origin }) });
      assert.ok("status" in refused, `${path} opened for ${origin}`);
      assert.deepEqual([refused.status, refused.headers["x-service-org-id"]], [403, org.id]);
    }
    const stream = await openSocket(url, mine);
    assert.ok("ws" in stream, path);
    stream.ws.terminate();
    // A request with a token needs no Origin header, because programs send none.
    const by_token = await openSocket(plane.url + streamTarget(name, robot.id, { token: org.admin_token }), {
      cookie: mine.cookie,
      origin: "https://evil.example",
    });
    assert.ok("ws" in by_token, path);
    by_token.ws.terminate();
    const bad = await openSocket(url, { ...mine, cookie: `${mine.cookie}0` });
    assert.ok("status" in bad);
    assert.deepEqual([bad.status, /Max-Age=0/.test(String(bad.headers["set-cookie"]))], [401, true]);
  }
});
