import assert from "node:assert/strict";
import { test } from "node:test";
import type { Me, NewToken, Token, User } from "@roamfleet/protocol/routes";
import { siteRoutes } from "../sites/index.ts";
import { type Reply, startFeaturePlane } from "../testing/feature-plane.ts";
import { userRoutes } from "../users/index.ts";
import { tokenRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const SECRET = /^rf_(org|user)_[0-9a-f]{64}$/;

/** A response body: `data` for success, `error` otherwise. */
interface Answered<T> {
  data: T;
  error: { code: string; message: string };
}

async function startRig() {
  const it = await startFeaturePlane([tokenRoutes, userRoutes, siteRoutes]);
  const org = await it.org({ name: "Acme" });
  const ask = <T = NewToken>(
    method: "GET" | "POST" | "PATCH" | "DELETE",
    url: string,
    body?: unknown,
    options: { token?: string; headers?: Record<string, string> } = {},
  ): Promise<Reply<Answered<T>>> => it.call<Answered<T>>(method, url, { token: org.token, body, ...options });
  const make = async (body: object = {}): Promise<NewToken & { token: string }> => {
    const { data } = (await ask("POST", "/api/tokens", { label: "laptop", role: "viewer", ...body })).body;
    return { ...data, token: data.token ?? "" };
  };
  const user = async (role: string): Promise<string> =>
    (await ask<User>("POST", "/api/users", { email: `${role}@example.org`, name: role, role })).body.data.id;
  const me = async (token: string) => ask<Me>("GET", "/api/me", undefined, { token });
  return { it, org, ask, make, user, me, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
}

test("creates an org token with the permissions of its role, and returns its secret once", TIMEOUT, async () => {
  await using rig = await startRig();
  const { status, headers, body } = await rig.ask("POST", "/api/tokens", { label: "ci", role: "operator", expires_in_hours: 1 });
  assert.equal(status, 201);
  const { token, ...shown } = body.data;
  assert.match(token ?? "", SECRET);
  assert.ok(token?.startsWith("rf_org_"));
  assert.equal(headers["location"], `/api/tokens/${shown.id}`);
  const { id, ...rest } = shown;
  const now = rig.it.clock.now().toISOString();
  assert.deepEqual(rest, {
    label: "ci",
    role: "operator",
    scopes: [],
    prefix: token?.slice(0, 12),
    user_id: null,
    status: "active",
    expires_at: "2030-01-01T01:00:00.000Z",
    last_used_at: null,
    revoked_at: null,
    created_by: { type: "org_token", id: rig.org.token_id, name: "admin" },
    created_at: now,
    updated_at: now,
  });
  assert.equal((await rig.me(token ?? "")).body.data.org.role, "operator");
  await rig.it.portal.flushUsed();
  const got = (await rig.ask<Token>("GET", `/api/tokens/${id}`)).body.data;
  assert.deepEqual(got, { ...shown, last_used_at: now });
  await rig.it.clock.advance({ hours: 1 });
  assert.equal((await rig.me(token ?? "")).status, 401);
  assert.equal((await rig.ask<Token>("GET", `/api/tokens/${id}`)).body.data.status, "expired");
});

test("a user's token never has more permissions than its user, also after the user's role changes", TIMEOUT, async () => {
  await using rig = await startRig();
  const user_id = await rig.user("operator");
  const { token } = await rig.make({ role: "operator", user_id });
  assert.ok(token.startsWith("rf_user_"));
  assert.equal((await rig.me(token)).body.data.org.role, "operator");
  await rig.ask("PATCH", `/api/users/${user_id}`, { role: "viewer" });
  await rig.it.clock.advance({ seconds: 2 });
  assert.equal((await rig.me(token)).body.data.org.role, "viewer");
  const refused = await rig.ask("POST", "/api/tokens", { label: "x", role: "operator", user_id });
  assert.equal(refused.status, 400);
  assert.match(refused.body.error.message, /field role: user usr_\w+ has the role viewer/);
});

test("a replayed creation or rotation of a token returns no secret and creates no further token", TIMEOUT, async () => {
  await using rig = await startRig();
  const headers = { "idempotency-key": "once" };
  const twice = async (url: string, body: object) => {
    const first = await rig.ask("POST", url, body, { headers });
    const again = await rig.ask("POST", url, body, { headers });
    assert.match(first.body.data.token ?? "", SECRET);
    assert.deepEqual([again.status, again.headers["idempotency-replayed"]], [first.status, "true"]);
    assert.deepEqual(again.body.data, { ...first.body.data, token: null });
    return first.body.data;
  };
  const made = await twice("/api/tokens", { label: "ci", role: "viewer" });
  const rotated = await twice(`/api/tokens/${made.id}/rotate`, {});
  assert.equal((await rig.me(rotated.token ?? "")).status, 200);
  assert.equal((await rig.it.call<{ items: Token[] }>("GET", "/api/tokens", { token: rig.org.token })).body.items.length, 2);
});

test("only admins of the whole org manage tokens, and invalid requests return 400 or 404", TIMEOUT, async () => {
  await using rig = await startRig();
  const body = { label: "x", role: "viewer" };
  for (const [fields, status] of [
    [{ label: undefined }, 400],
    [{ role: "root" }, 400],
    [{ expires_in_hours: -1 }, 400],
    [{ scopes: [{ site_id: "site_gone" }] }, 400],
    [{ user_id: "usr_gone" }, 404],
  ] as const)
    assert.equal((await rig.ask("POST", "/api/tokens", { ...body, ...fields })).status, status, JSON.stringify(fields));
  assert.equal((await rig.it.call("GET", "/api/tokens")).status, 401);
  const { data: site } = (await rig.ask<{ id: string }>("POST", "/api/sites", { name: "North" })).body;
  const operator = await rig.make({ role: "operator" });
  const partly = await rig.make({ role: "admin", scopes: [{ site_id: site.id }] });
  for (const { token } of [operator, partly]) {
    assert.equal((await rig.ask("POST", "/api/tokens", body, { token })).status, 403);
    assert.equal((await rig.ask("POST", `/api/tokens/${operator.id}/revoke`, {}, { token })).status, 403);
    assert.equal((await rig.ask("GET", "/api/tokens", undefined, { token })).status, 403);
  }
  const other = await rig.it.org();
  for (const id of [operator.id, "tok_gone"]) {
    const token = id === "tok_gone" ? rig.org.token : other.token;
    assert.equal((await rig.ask("GET", `/api/tokens/${id}`, undefined, { token })).status, 404);
    assert.equal((await rig.ask("POST", `/api/tokens/${id}/revoke`, {}, { token })).status, 404);
    assert.equal((await rig.ask("POST", `/api/tokens/${id}/rotate`, {}, { token })).status, 404);
  }
});

test("lists tokens newest first, by user and status, in pages", TIMEOUT, async () => {
  await using rig = await startRig();
  const user_id = await rig.user("operator");
  await rig.make({ label: "a", user_id });
  const { id } = await rig.make({ label: "b" });
  await rig.make({ label: "c", expires_in_hours: 1 });
  await rig.ask("POST", `/api/tokens/${id}/revoke`, {});
  await rig.it.clock.advance({ hours: 2 });
  type List = { items: Token[]; next_cursor: string | null };
  const list = async (query: string) => (await rig.it.call<List>("GET", `/api/tokens${query}`, { token: rig.org.token })).body;
  const labels = async (query: string) => (await list(query)).items.map(({ label }) => label);
  assert.deepEqual(await labels(""), ["c", "b", "a", "admin"]);
  assert.deepEqual(await labels(`?user_id=${user_id}`), ["a"]);
  assert.deepEqual(await labels("?status=revoked"), ["b"]);
  assert.deepEqual(await labels("?status=expired"), ["c"]);
  const page = await list("?status=active&limit=1");
  assert.deepEqual(await labels(`?status=active&limit=1&cursor=${page.next_cursor}`), ["admin"]);
  assert.equal((await rig.ask("GET", "/api/tokens?user_id=usr_gone")).status, 404);
});

test("a revoked token is refused within 2 s, and revoking again changes nothing", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id, token } = await rig.make();
  assert.equal((await rig.me(token)).status, 200);
  const first = await rig.ask<Token>("POST", `/api/tokens/${id}/revoke`, {});
  assert.deepEqual([first.status, first.body.data.status, first.body.data.revoked_at], [200, "revoked", rig.it.clock.now().toISOString()]);
  await rig.it.clock.advance({ seconds: 2 });
  const refused = await rig.me(token);
  assert.deepEqual([refused.status, refused.body.error.message], [401, "the token was revoked"]);
  const again = await rig.ask<Token>("POST", `/api/tokens/${id}/revoke`, {});
  assert.deepEqual([again.status, again.body.data], [200, first.body.data]);
  assert.equal((await rig.ask("POST", `/api/tokens/${id}/rotate`, {})).status, 409);
});

test("after a rotation, the new secret works immediately, and the old one is refused within 2 s", TIMEOUT, async () => {
  await using rig = await startRig();
  const old = await rig.make();
  assert.equal((await rig.me(old.token)).status, 200);
  const { status, body } = await rig.ask("POST", `/api/tokens/${old.id}/rotate`, {});
  assert.equal(status, 200);
  const { id, prefix, token } = body.data;
  assert.equal(id, old.id);
  assert.notEqual(token, old.token);
  assert.equal(prefix, token?.slice(0, 12));
  assert.equal((await rig.me(token ?? "")).status, 200);
  await rig.it.clock.advance({ seconds: 2 });
  for (let i = 0; i < 30; i += 1) assert.equal((await rig.me(old.token)).status, 401);
  assert.equal((await rig.me(token ?? "")).status, 200);
});

test("both secrets of a rotated token work during the overlap, but never more than two", TIMEOUT, async () => {
  await using rig = await startRig();
  const first = await rig.make();
  const rotate = async (overlap_seconds: number) =>
    (await rig.ask("POST", `/api/tokens/${first.id}/rotate`, { overlap_seconds })).body.data.token ?? "";
  const second = await rotate(60);
  await rig.it.clock.advance({ seconds: 59 });
  assert.deepEqual([(await rig.me(first.token)).status, (await rig.me(second)).status], [200, 200]);
  await rig.it.clock.advance({ seconds: 1 });
  assert.deepEqual([(await rig.me(first.token)).status, (await rig.me(second)).status], [401, 200]);
  const third = await rotate(60);
  const fourth = await rotate(60);
  await rig.it.clock.advance({ seconds: 2 });
  const statuses = await Promise.all([second, third, fourth].map(async (secret) => (await rig.me(secret)).status));
  assert.deepEqual(statuses, [401, 200, 200]);
  await rig.ask("POST", `/api/tokens/${first.id}/revoke`, {});
  await rig.it.clock.advance({ seconds: 2 });
  assert.deepEqual([(await rig.me(third)).status, (await rig.me(fourth)).status], [401, 401]);
  assert.equal((await rig.ask("POST", `/api/tokens/${first.id}/rotate`, { overlap_seconds: 86_401 })).status, 400);
});
