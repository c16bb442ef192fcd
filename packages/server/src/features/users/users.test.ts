import assert from "node:assert/strict";
import { test } from "node:test";
import type { Me, NewToken, RemovedUser, User, UserHolding } from "@roamfleet/protocol/routes";
import { fleetRoutes } from "../fleets/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { type Reply, startFeaturePlane } from "../testing/feature-plane.ts";
import { createCredential, tokenRoutes } from "../tokens/index.ts";
import { userRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const ADA = { email: "Ada@Example.org", name: "Ada Lovelace", role: "operator" };

/** A response body: `data` for success, `error` otherwise. */
interface Answered<T> {
  data: T;
  error: { code: string; message: string };
}

async function startRig() {
  const it = await startFeaturePlane([userRoutes, tokenRoutes, siteRoutes, fleetRoutes]);
  const org = await it.org({ name: "Acme" });
  const ask = <T = User>(
    method: "GET" | "POST" | "PATCH" | "DELETE",
    url: string,
    body?: unknown,
    options: { token?: string; headers?: Record<string, string> } = {},
  ): Promise<Reply<Answered<T>>> => it.call<Answered<T>>(method, url, { token: org.token, body, ...options });
  const id = async (url: string, body: unknown): Promise<string> => (await ask<{ id: string }>("POST", url, body)).body.data.id;
  const site_id = await id("/api/sites", { name: "North" });
  const fleet_id = await id("/api/fleets", { name: "Movers", site_id });
  const revoke = async (token_id: string) => ask("POST", `/api/tokens/${token_id}/revoke`, {});
  return { it, org, ask, site_id, fleet_id, revoke, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
}

test("adds a user with a lowercase address and a role, and shows when the user was last seen", TIMEOUT, async () => {
  await using rig = await startRig();
  const { status, headers, body } = await rig.ask("POST", "/api/users", ADA);
  assert.equal(status, 201);
  const { id, created_at, updated_at, ...rest } = body.data;
  assert.match(id, /^usr_[0-9a-z]{26}$/);
  assert.equal(headers["location"], `/api/users/${id}`);
  assert.ok(created_at === updated_at && created_at !== "");
  assert.deepEqual(rest, {
    email: "ada@example.org",
    name: "Ada Lovelace",
    role: "operator",
    grants: [{ role: "operator", scopes: [] }],
    last_seen_at: null,
  });
  const made = await rig.ask<NewToken>("POST", "/api/tokens", { label: "laptop", role: "operator", user_id: id });
  const me = await rig.ask<Me>("GET", "/api/me", undefined, { token: made.body.data.token ?? "" });
  assert.deepEqual(me.body.data.actor, { type: "user", id, name: "Ada Lovelace" });
  await rig.it.portal.flushUsed();
  assert.equal((await rig.ask("GET", `/api/users/${id}`)).body.data.last_seen_at, rig.it.clock.now().toISOString());
});

test("adding a user again adds a grant with another role, or changes the scopes of the same role", TIMEOUT, async () => {
  await using rig = await startRig();
  const first = await rig.ask("POST", "/api/users", { ...ADA, role: "viewer" });
  const scopes = [{ site_id: rig.site_id }, { site_id: rig.site_id }];
  const second = await rig.ask("POST", "/api/users", { ...ADA, email: "ADA@example.ORG", name: "Other", scopes });
  assert.equal(second.status, 200);
  assert.equal(second.body.data.id, first.body.data.id);
  assert.equal(second.body.data.name, "Ada Lovelace");
  assert.equal(second.body.data.role, "operator");
  assert.deepEqual(second.body.data.grants, [
    { role: "operator", scopes: [{ site_id: rig.site_id }] },
    { role: "viewer", scopes: [] },
  ]);
  const third = await rig.ask("POST", "/api/users", { ...ADA, scopes: [{ fleet_id: rig.fleet_id }] });
  assert.deepEqual(third.body.data.grants[0], { role: "operator", scopes: [{ fleet_id: rig.fleet_id }] });
});

test("a request repeated with the same Idempotency-Key creates one user", TIMEOUT, async () => {
  await using rig = await startRig();
  const headers = { "idempotency-key": "once" };
  const first = await rig.ask("POST", "/api/users", ADA, { headers });
  const again = await rig.ask("POST", "/api/users", ADA, { headers });
  assert.deepEqual([again.status, again.headers["idempotency-replayed"]], [201, "true"]);
  assert.deepEqual(again.body, first.body);
  assert.equal((await rig.ask("POST", "/api/users", { ...ADA, name: "Else" }, { headers })).status, 409);
});

test("returns 400 with the name of an invalid user field, and 401 or 403 without admin rights", TIMEOUT, async () => {
  await using rig = await startRig();
  const other = await rig.it.org();
  const foreign = await rig.it.call<{ data: { id: string } }>("POST", "/api/sites", { token: other.token, body: { name: "Other site" } });
  const { site_id, fleet_id } = rig;
  const cases: [object, RegExp][] = [
    [{ email: "ada" }, /field email must be an e-mail address/],
    [{ role: "owner" }, /field role must be one of viewer, operator, admin/],
    [{ scopes: [{ site_id: foreign.body.data.id }] }, /field scopes\.0\.site_id: site site_\w+ does not exist/],
    [{ scopes: [{ site_id }, { fleet_id: "fleet_gone" }] }, /field scopes\.1\.fleet_id: fleet fleet_gone does not exist/],
    [{ scopes: [{ site_id, fleet_id }] }, /field scopes\.0 must name exactly one of site_id and fleet_id/],
    [{ scopes: [{}] }, /field scopes\.0 must name exactly one/],
  ];
  for (const [fields, message] of cases) {
    const { status, body } = await rig.ask("POST", "/api/users", { ...ADA, ...fields });
    assert.deepEqual([status, body.error.code], [400, "bad_request"]);
    assert.match(body.error.message, message);
  }
  assert.equal((await rig.it.call("GET", "/api/users")).status, 401);
  const operator = await rig.ask<NewToken>("POST", "/api/tokens", { label: "op", role: "operator" });
  assert.equal((await rig.ask("GET", "/api/users", undefined, { token: operator.body.data.token ?? "" })).status, 403);
  const partly = await rig.ask<NewToken>("POST", "/api/tokens", { label: "part", role: "admin", scopes: [{ site_id }] });
  assert.equal((await rig.ask("POST", "/api/users", ADA, { token: partly.body.data.token ?? "" })).status, 403);
});

test("lists only the org's users, newest first, by name, address and role, in pages", TIMEOUT, async () => {
  await using rig = await startRig();
  const other = await rig.it.org();
  await rig.it.call("POST", "/api/users", { token: other.token, body: { ...ADA, email: "eve@example.org" } });
  for (const [name, role] of [
    ["Ada", "viewer"],
    ["Grace", "operator"],
    ["Zoë", "viewer"],
  ])
    await rig.ask("POST", "/api/users", { email: `${name}@example.org`, name, role });
  const list = async (query: string) =>
    (await rig.it.call<{ items: User[]; next_cursor: string | null }>("GET", `/api/users${query}`, { token: rig.org.token })).body;
  const names = async (query: string) => (await list(query)).items.map(({ name }) => name);
  assert.deepEqual(await names(""), ["Zoë", "Grace", "Ada"]);
  assert.deepEqual(await names("?role=viewer"), ["Zoë", "Ada"]);
  assert.deepEqual(await names("?q=GRA"), ["Grace"]);
  assert.deepEqual(await names("?q=zo%C3%AB@"), ["Zoë"]);
  const page = await list("?limit=2");
  assert.deepEqual(await names(`?limit=2&cursor=${page.next_cursor}`), ["Ada"]);
});

test("PATCH changes a user's name and grants, and returns 400 if the grant is ambiguous", TIMEOUT, async () => {
  await using rig = await startRig();
  const { site_id, fleet_id } = rig;
  const { id } = (await rig.ask("POST", "/api/users", ADA)).body.data;
  const patch = (body: object) => rig.ask("PATCH", `/api/users/${id}`, body);
  assert.equal((await patch({ name: "Countess" })).body.data.name, "Countess");
  assert.deepEqual((await patch({ scopes: [{ site_id }] })).body.data.grants, [{ role: "operator", scopes: [{ site_id }] }]);
  assert.deepEqual((await patch({ role: "viewer" })).body.data.grants, [{ role: "viewer", scopes: [{ site_id }] }]);
  const grants = [
    { role: "operator", scopes: [{ fleet_id }] },
    { role: "viewer", scopes: [] },
  ];
  assert.deepEqual((await patch({ grants })).body.data.grants, grants);
  assert.deepEqual((await patch({})).body.data.grants, grants);
  for (const [body, message] of [
    [{ role: "viewer" }, /field grants is needed/],
    [{ role: "viewer", grants }, /replaces role and scopes/],
    [{ grants: [grants[0], grants[0]] }, /grants\.1\.role: operator is a duplicate/],
    [{ grants: [{ role: "viewer", scopes: [{ site_id: "site_gone" }] }] }, /grants\.0\.scopes\.0\.site_id/],
    [{ grants: [] }, /grants/],
  ] as const) {
    const { status, body: answer } = await patch(body);
    assert.equal(status, 400);
    assert.match(answer.error.message, message);
  }
  const other = await rig.it.org();
  for (const method of ["GET", "PATCH", "DELETE"] as const) {
    const body = method === "PATCH" ? { name: "Mine" } : undefined;
    assert.equal((await rig.ask(method, `/api/users/${id}`, body, { token: other.token })).status, 404, method);
    assert.equal((await rig.ask(method, "/api/users/usr_gone", body)).status, 404, method);
  }
});

test("each org has a separate name for the same user", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id } = (await rig.ask("POST", "/api/users", ADA)).body.data;
  await rig.it.clock.advance({ minutes: 1 });
  const other = await rig.it.org();
  const ofOther = async (method: "GET" | "POST" | "PATCH", url: string, body?: unknown) =>
    (await rig.it.call<{ data: User }>(method, url, { token: other.token, body })).body.data;
  const in_other_org = await ofOther("POST", "/api/users", { ...ADA, name: "A. L.", role: "viewer" });
  assert.deepEqual([in_other_org.id, in_other_org.name, in_other_org.grants.length, in_other_org.role], [id, "A. L.", 1, "viewer"]);
  await rig.it.clock.advance({ minutes: 1 });
  const renamed = await rig.ask("PATCH", `/api/users/${id}`, { name: "Countess" });
  assert.deepEqual([renamed.status, renamed.body.data.name], [200, "Countess"]);
  assert.deepEqual(await ofOther("GET", `/api/users/${id}`), in_other_org);
  // A further grant does not change the name.
  assert.equal((await rig.ask("POST", "/api/users", { ...ADA, role: "viewer" })).body.data.name, "Countess");
  const found = async (token: string, q: string) =>
    (await rig.it.call<{ items: User[] }>("GET", `/api/users?q=${q}`, { token })).body.items.map((user) => user.id);
  assert.deepEqual([await found(rig.org.token, "countess"), await found(other.token, "countess")], [[id], []]);
  const made = await rig.ask<NewToken>("POST", "/api/tokens", { label: "laptop", role: "viewer", user_id: id }, { token: other.token });
  assert.equal((await rig.ask<Me>("GET", "/api/me", undefined, { token: made.body.data.token ?? "" })).body.data.actor.name, "A. L.");
});

test("DELETE removes a user and the user's tokens from this org only", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id } = (await rig.ask("POST", "/api/users", ADA)).body.data;
  const other = await rig.it.org();
  await rig.it.call("POST", "/api/users", { token: other.token, body: ADA });
  const token = { label: "laptop", role: "viewer", user_id: id };
  const here = (await rig.ask<NewToken>("POST", "/api/tokens", token)).body.data;
  const there = (await rig.ask<NewToken>("POST", "/api/tokens", token, { token: other.token })).body.data;
  const me = async (secret: string | null) => (await rig.ask("GET", "/api/me", undefined, { token: secret ?? "" })).status;
  assert.equal(await me(here.token), 200);
  const gone = await rig.ask("DELETE", `/api/users/${id}`);
  assert.deepEqual([gone.status, gone.body.data.role], [200, "operator"]);
  await rig.it.clock.advance({ seconds: 2 });
  assert.equal(await me(here.token), 401);
  assert.equal(await me(there.token), 200);
  assert.equal((await rig.ask("GET", `/api/users/${id}`)).status, 404);
  assert.equal((await rig.ask("DELETE", `/api/users/${id}`)).status, 404);
  assert.equal((await rig.ask<NewToken>("GET", `/api/tokens/${here.id}`)).body.data.status, "revoked");
});

test("lists the tokens that the removal of a user revokes or keeps", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id } = (await rig.ask("POST", "/api/users", { ...ADA, role: "admin" })).body.data;
  const own = (await rig.ask<NewToken>("POST", "/api/tokens", { label: "laptop", role: "admin", user_id: id })).body.data;
  const as_ada = { token: own.token ?? "" };
  const of_org = (await rig.ask<NewToken>("POST", "/api/tokens", { label: "ci", role: "operator" }, as_ada)).body.data;
  const expected = [
    { kind: "token", id: of_org.id, label: "ci", status: "active", outcome: "kept" },
    { kind: "token", id: own.id, label: "laptop", status: "active", outcome: "revoked" },
  ];
  const before = await rig.it.call<{ items: UserHolding[] }>("GET", `/api/users/${id}/holdings`, { token: rig.org.token });
  assert.deepEqual(before.body.items, expected);
  assert.equal((await rig.ask("GET", "/api/users/usr_gone/holdings")).status, 404);
  const removed = await rig.ask<RemovedUser>("DELETE", `/api/users/${id}`);
  assert.deepEqual(removed.body.data.holdings, expected);
  assert.equal((await rig.ask<NewToken>("GET", `/api/tokens/${of_org.id}`)).body.data.status, "active");
});

test("keeps a removed user's token for every org, but the token remains valid only in other orgs", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id } = (await rig.ask("POST", "/api/users", { ...ADA, role: "admin" })).body.data;
  const other = await rig.it.org();
  await rig.it.call("POST", "/api/users", { token: other.token, body: { ...ADA, role: "admin" } });
  const every = await createCredential(rig.it.plane.db, rig.it.plane, {
    kind: "user",
    every_org: true,
    org_id: rig.org.org_id,
    user_id: id,
    role: "admin",
    label: "every",
  });
  const { holdings } = (await rig.ask<RemovedUser>("DELETE", `/api/users/${id}`)).body.data;
  assert.deepEqual(
    holdings.map((one) => [one.kind, one.id, one.outcome]),
    [["token", every.id, "kept"]],
  );
  await rig.it.clock.advance({ seconds: 2 });
  const openedOf = async (org_id: string) =>
    (await rig.ask("GET", "/api/me", undefined, { token: every.secret, headers: { "x-service-org-id": org_id } })).status;
  assert.deepEqual([await openedOf(rig.org.org_id), await openedOf(other.org_id)], [403, 200]);
});

test("a token that one org issues for a user is not valid for other orgs of the user", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id } = (await rig.ask("POST", "/api/users", { ...ADA, role: "admin" })).body.data;
  const other = await rig.it.org();
  await rig.it.call("POST", "/api/users", { token: other.token, body: { ...ADA, role: "admin" } });
  const { token } = (await rig.ask<NewToken>("POST", "/api/tokens", { label: "x", role: "admin", user_id: id })).body.data;
  const into = await rig.ask("GET", "/api/me", undefined, { token: token ?? "", headers: { "x-service-org-id": other.org_id } });
  assert.equal(into.status, 403);
  const me = await rig.ask<Me>("GET", "/api/me", undefined, { token: token ?? "" });
  assert.deepEqual(
    me.body.data.orgs.map((org) => org.id),
    [rig.org.org_id],
  );
});

test("returns 409 for removing or demoting the last admin of an org without an admin token", TIMEOUT, async () => {
  await using rig = await startRig();
  const admin = (await rig.ask("POST", "/api/users", { ...ADA, role: "admin" })).body.data;
  const own = (await rig.ask<NewToken>("POST", "/api/tokens", { label: "own", role: "admin", user_id: admin.id })).body.data.token ?? "";
  const scopes = [{ site_id: rig.site_id }];
  const attempts: [method: "PATCH" | "DELETE" | "POST", url: string, body?: object][] = [
    ["PATCH", `/api/users/${admin.id}`, { role: "operator" }],
    ["PATCH", `/api/users/${admin.id}`, { scopes }],
    ["PATCH", `/api/users/${admin.id}`, { grants: [{ role: "admin", scopes }] }],
    ["POST", "/api/users", { ...ADA, role: "admin", scopes }],
    ["DELETE", `/api/users/${admin.id}`],
  ];
  await rig.revoke(rig.org.token_id);
  // Neither a token with scopes nor a user's token counts as admin token of the org.
  await rig.ask("POST", "/api/tokens", { label: "narrow", role: "admin", scopes }, { token: own });
  for (const [method, url, body] of attempts) {
    const { status, body: answer } = await rig.ask(method, url, body, { token: own });
    assert.deepEqual([status, answer.error.code], [409, "conflict"], `${method} ${JSON.stringify(body)}`);
    assert.match(answer.error.message, /last admin of the org/);
  }
  assert.deepEqual((await rig.ask("GET", `/api/users/${admin.id}`, undefined, { token: own })).body.data.grants, admin.grants);
  await rig.ask("POST", "/api/tokens", { label: "org", role: "admin" }, { token: own });
  assert.equal((await rig.ask("PATCH", `/api/users/${admin.id}`, { role: "operator" }, { token: own })).status, 200);
});

test("refuses one of two concurrent removals of the last two admins", TIMEOUT, async () => {
  await using rig = await startRig();
  const made = [];
  for (const email of ["a@example.org", "b@example.org"]) {
    const { id } = (await rig.ask("POST", "/api/users", { ...ADA, email, role: "admin" })).body.data;
    const { token } = (await rig.ask<NewToken>("POST", "/api/tokens", { label: "own", role: "admin", user_id: id })).body.data;
    made.push({ id, token: token ?? "" });
  }
  await rig.revoke(rig.org.token_id);
  const statuses = await Promise.all(
    made.map(async ({ id, token }) => (await rig.ask("DELETE", `/api/users/${id}`, undefined, { token })).status),
  );
  assert.deepEqual(statuses.toSorted(), [200, 409]);
});
