import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApprovedOrg, Me, Org, OwnOrg, Stats } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Http } from "../../kernel/http.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { createCredential, tokenRoutes } from "../tokens/index.ts";
import { dropPendingOrgs, orgRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const ADMIN = "service-admin-token";
const start = () => startFeaturePlane([orgRoutes, tokenRoutes], { admin_token: ADMIN });

test("a new org is pending until its approval, which returns its first token once", TIMEOUT, async () => {
  await using it = await start();
  const made = await it.call<{ data: Org }>("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "Acme" } });
  assert.equal(made.status, 201);
  assert.equal(made.body.data.status, "pending");
  assert.equal(made.headers["location"], `/api/admin/orgs/${made.body.data.id}`);
  const approved = await it.call<{ data: ApprovedOrg }>("POST", `/api/admin/orgs/${made.body.data.id}/approve`, { token: ADMIN });
  assert.equal(approved.status, 200);
  assert.equal(approved.body.data.status, "active");
  const token = approved.body.data.token ?? "";
  assert.match(token, /^rf_org_[0-9a-f]{64}$/);
  const me = await it.call<{ data: Me }>("GET", "/api/me", { token });
  assert.equal(me.body.data.org.id, made.body.data.id);
  assert.equal(me.body.data.org.role, "admin");
  const again = await it.call("POST", `/api/admin/orgs/${made.body.data.id}/approve`, { token: ADMIN });
  assert.equal(again.status, 409);
  assert.equal(again.body.error.code, "conflict");
});

test("of two concurrent approvals of an org, one returns the token and the other 409", TIMEOUT, async () => {
  await using it = await start();
  const { body } = await it.call<{ data: Org }>("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "Acme" } });
  const both = await Promise.all([1, 2].map(() => it.call("POST", `/api/admin/orgs/${body.data.id}/approve`, { token: ADMIN })));
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409]);
});

test("a replayed approval of an org returns no token", TIMEOUT, async () => {
  await using it = await start();
  const { body } = await it.call<{ data: Org }>("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "Acme" } });
  const approve = () =>
    it.call<{ data: ApprovedOrg }>("POST", `/api/admin/orgs/${body.data.id}/approve`, {
      token: ADMIN,
      headers: { "idempotency-key": "k" },
    });
  assert.match((await approve()).body.data.token ?? "", /^rf_org_/);
  const replay = await approve();
  assert.equal(replay.headers["idempotency-replayed"], "true");
  assert.equal(replay.body.data.token, null);
});

test("returns 409 for a taken org name, 404 for an unknown org and 401 without the admin token", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org({ name: "Acme" });
  const taken = await it.call("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "Acme" } });
  assert.equal(taken.status, 409);
  assert.match(taken.body.error.message, /Acme/);
  assert.equal((await it.call("POST", "/api/admin/orgs/org_gone/approve", { token: ADMIN })).status, 404);
  assert.equal((await it.call("POST", "/api/admin/orgs", { token: ADMIN, body: {} })).status, 400);
  assert.equal((await it.call("GET", "/api/admin/orgs")).status, 401);
  assert.equal((await it.call("GET", "/api/admin/orgs", { token })).status, 403);
});

test("a public request for an org returns 202 and creates a pending org with the email address", TIMEOUT, async () => {
  await using it = await start();
  const ask = (body: object, headers: Record<string, string> = {}) => it.call<{ data: Org }>("POST", "/api/orgs", { body, headers });
  const asked = await ask({ name: "Acme", email: "ada@example.org" }, { "idempotency-key": "once" });
  assert.equal(asked.status, 202);
  const { id, name, email, status } = asked.body.data;
  assert.deepEqual([name, email, status], ["Acme", "ada@example.org", "pending"]);
  const again = await ask({ name: "Acme", email: "ada@example.org" }, { "idempotency-key": "once" });
  assert.deepEqual([again.status, again.headers["idempotency-replayed"]], [202, "true"]);
  assert.equal((await ask({ name: "Acme", email: "eve@example.org" })).status, 409);
  assert.equal((await ask({ name: "Other", email: "no-address" })).status, 400);
  const seen = await it.call<{ data: Org }>("GET", `/api/admin/orgs/${id}`, { token: ADMIN });
  assert.deepEqual(seen.body, asked.body);
  const approved = await it.call<{ data: ApprovedOrg }>("POST", `/api/admin/orgs/${id}/approve`, { token: ADMIN });
  assert.equal(approved.body.data.email, "ada@example.org");
  assert.equal((await it.call("GET", "/api/admin/orgs/org_gone", { token: ADMIN })).status, 404);
});

test("limits requests for orgs by address, and refuses all of them if the limit is 0", TIMEOUT, async () => {
  await using it = await start();
  let made = 0;
  const ask = async (remote_address: string) =>
    it.call("POST", "/api/orgs", { body: { name: `Org ${(made += 1)}`, email: "ada@example.org" }, remote_address });
  for (let i = 0; i < 5; i += 1) assert.equal((await ask("127.0.0.2")).status, 202);
  const limited = await ask("127.0.0.2");
  assert.equal(limited.status, 429);
  assert.ok(Number(limited.headers["retry-after"]) > 60);
  assert.equal(limited.headers["ratelimit-policy"], '"org-requests";q=5;w=3600');
  assert.equal((await ask("127.0.0.3")).status, 202);
  await it.clock.advance({ minutes: 12 });
  assert.equal((await ask("127.0.0.2")).status, 202);
  const off = (http: Http, plane: Plane): void =>
    orgRoutes(http, { ...plane, settings: { ...plane.settings, limits: { ...plane.settings.limits, org_requests_per_hour: 0 } } });
  await using closed = await startFeaturePlane([off]);
  const refused = await closed.call("POST", "/api/orgs", { body: { name: "Acme", email: "ada@example.org" } });
  assert.equal(refused.status, 403);
  assert.match(refused.body.error.message, /does not accept org requests/);
});

test("the name of a pending org is free after its rejection or expiry", TIMEOUT, async () => {
  await using it = await start();
  const ask = async (name: string) =>
    (await it.call<{ data: Org }>("POST", "/api/orgs", { body: { name, email: "ada@example.org" } })).body.data;
  const reject = (id: string, token = ADMIN) => it.call<{ data: Org }>("POST", `/api/admin/orgs/${id}/reject`, { token });
  const first = await ask("Acme");
  const rejected = await reject(first.id);
  assert.deepEqual([rejected.status, rejected.body.data.name], [200, "Acme"]);
  assert.equal((await reject(first.id)).status, 404);
  const again = await ask("Acme");
  const active = await it.org();
  assert.equal((await reject(active.org_id)).status, 409);
  assert.equal((await reject(again.id, active.token)).status, 403);
  const pending = async () =>
    (await it.call<{ items: Org[] }>("GET", "/api/admin/orgs?status=pending", { token: ADMIN })).body.items.map(({ id }) => id);
  await dropPendingOrgs(it.plane.db, it.clock.now());
  assert.deepEqual(await pending(), [again.id]);
  await it.clock.advance({ minutes: 1 });
  await dropPendingOrgs(it.plane.db, it.clock.now());
  assert.deepEqual(await pending(), []);
  assert.equal((await it.call("GET", `/api/admin/orgs/${active.org_id}`, { token: ADMIN })).status, 200);
});

test("tokens of a suspended org return 403 within 2 s, and work again after a resume", TIMEOUT, async () => {
  await using it = await start();
  const { org_id, token } = await it.org();
  const me = async () => (await it.call("GET", "/api/me", { token })).status;
  const turn = (verb: string, id = org_id) =>
    it.call<{ data: Org; error: { message: string } }>("POST", `/api/admin/orgs/${id}/${verb}`, { token: ADMIN });
  assert.equal(await me(), 200);
  const suspended = await turn("suspend");
  assert.deepEqual([suspended.status, suspended.body.data.status], [200, "suspended"]);
  await it.clock.advance({ seconds: 2 });
  assert.equal(await me(), 403);
  assert.deepEqual((await turn("suspend")).body, suspended.body);
  assert.equal((await turn("resume")).body.data.status, "active");
  await it.clock.advance({ seconds: 2 });
  assert.equal(await me(), 200);
  assert.equal((await turn("resume")).status, 200);
  const { body } = await it.call<{ data: Org }>("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "New" } });
  for (const verb of ["suspend", "resume"]) {
    assert.equal((await turn(verb, body.data.id)).status, 409);
    assert.equal((await turn(verb, "org_gone")).status, 404);
    assert.equal((await it.call("POST", `/api/admin/orgs/${org_id}/${verb}`, { token })).status, 403);
  }
});

test("members read their org, and admins rename it and change its settings", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org({ name: "Acme" });
  await it.org({ name: "Other" });
  const patch = (body: object) => it.call<{ data: OwnOrg; error: { message: string } }>("PATCH", "/api/org", { token, body });
  const first = (await it.call<{ data: OwnOrg }>("GET", "/api/org", { token })).body.data;
  assert.deepEqual([first.id, first.name, first.status], [org_id, "Acme", "active"]);
  assert.deepEqual(first.settings, { deployment_expires_days: null });
  assert.deepEqual((await patch({ settings: { deployment_expires_days: 30 } })).body.data.settings, { deployment_expires_days: 30 });
  const renamed = await patch({ name: "Acme Robots" });
  assert.deepEqual([renamed.body.data.name, renamed.body.data.settings.deployment_expires_days], ["Acme Robots", 30]);
  assert.equal((await patch({ settings: { deployment_expires_days: 0 } })).body.data.settings.deployment_expires_days, null);
  assert.equal((await patch({ settings: { deployment_expires_days: 366 } })).status, 400);
  assert.equal((await patch({ settings: { colour: "red" } })).status, 400);
  assert.equal((await patch({ name: "Other" })).status, 409);
  const operator = await createCredential(it.plane.db, it.plane, { kind: "org", org_id, role: "operator" });
  assert.equal((await it.call("GET", "/api/org", { token: operator.secret })).status, 200);
  assert.equal((await it.call("PATCH", "/api/org", { token: operator.secret, body: { name: "Mine" } })).status, 403);
  assert.equal((await it.call("GET", "/api/org")).status, 401);
});

test("returns the service's statistics of orgs, robots, deployments and the database", TIMEOUT, async () => {
  await using it = await start();
  const { org_id } = await it.org();
  await it.call("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "New" } });
  await seedRobot(it.plane, org_id);
  const { status, body } = await it.call<{ data: Stats }>("GET", "/api/admin/stats", { token: ADMIN });
  assert.equal(status, 200);
  const { database, ...rest } = body.data;
  assert.deepEqual(rest, {
    orgs: { total: 2, pending: 1, active: 1, suspended: 0 },
    robots: { total: 1, online: 0 },
    deployments: { scheduled: 0, running: 0 },
  });
  assert.ok(database.size_bytes > 1_000_000);
});

test("lists orgs newest first, by status, in pages", TIMEOUT, async () => {
  await using it = await start();
  const { org_id } = await it.org({ name: "Active" });
  for (const name of ["A", "B", "C"]) await it.call("POST", "/api/admin/orgs", { token: ADMIN, body: { name } });
  type List = { items: Org[]; next_cursor: string | null };
  const list = async (query: string) => (await it.call<List>("GET", `/api/admin/orgs${query}`, { token: ADMIN })).body;
  const names = ({ items }: List) => items.map(({ name }) => name);
  assert.deepEqual(names(await list("")), ["C", "B", "A", "Active"]);
  assert.deepEqual(
    (await list("?status=active")).items.map(({ id }) => id),
    [org_id],
  );
  const page = await list("?status=pending&limit=2");
  assert.deepEqual(names(page), ["C", "B"]);
  const rest = await list(`?status=pending&limit=2&cursor=${page.next_cursor}`);
  assert.deepEqual([names(rest), rest.next_cursor], [["A"], null]);
  const foreign = await it.call("GET", `/api/admin/orgs?status=active&cursor=${page.next_cursor}`, { token: ADMIN });
  assert.equal(foreign.status, 400);
});
