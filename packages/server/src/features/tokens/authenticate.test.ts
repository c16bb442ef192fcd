import assert from "node:assert/strict";
import { test } from "node:test";
import type { Me } from "@roamfleet/protocol/routes";
import { nullable, row, sql, text, timestamptz } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { createCredential, tokenRoutes } from "./index.ts";
import { updateLastUsed } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };
const wholeRow = row({ whole: text });
const usedRow = row({ last_used_at: nullable(timestamptz) });

async function withUser() {
  const it = await startFeaturePlane([tokenRoutes]);
  const [first, second] = [await it.org({ name: "First" }), await it.org({ name: "Second" })];
  const now = it.clock.now();
  await it.plane.db.run(
    sql`insert into user_account (id, email, name, created_at, updated_at) values ('usr_ada', 'ada@example.org', 'Ada', ${now}, ${now})`,
  );
  await it.plane.db.run(sql`
    insert into membership (org_id, user_id, role, name, created_at, updated_at) values (${first.org_id}, 'usr_ada', 'viewer', 'Ada', ${now}, ${now}), (${second.org_id}, 'usr_ada', 'admin', 'Countess', ${now}, ${now})`);
  const { secret } = await createCredential(it.plane.db, it.plane, {
    kind: "user",
    every_org: true,
    org_id: first.org_id,
    user_id: "usr_ada",
    role: "operator",
  });
  return { it, first, second, secret };
}

test("returns 401 without a token and for an unknown token", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const none = await it.call("GET", "/api/me");
  assert.equal(none.status, 401);
  assert.equal(none.headers["x-service-org-id"], undefined);
  const wrong = await it.call("GET", "/api/me", { token: `rf_org_${"0".repeat(64)}` });
  assert.equal(wrong.status, 401);
  assert.equal(wrong.body.error.code, "unauthorized");
  assert.match(String(wrong.headers["www-authenticate"]), /^Bearer/);
});

test("an org's token has the role admin in its org, and Bearer is case-insensitive", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { org_id, token } = await it.org({ name: "Acme" });
  const { status, body, headers } = await it.call<{ data: Me }>("GET", "/api/me", { headers: { authorization: `bEARER ${token}` } });
  assert.equal(status, 200);
  assert.equal(headers["x-service-org-id"], org_id);
  assert.deepEqual(body.data.org, { id: org_id, name: "Acme", role: "admin" });
  assert.deepEqual(body.data.orgs, [{ id: org_id, name: "Acme", role: "admin", default: true }]);
  assert.equal(body.data.token.prefix, token.slice(0, 12));
});

test("a user's token has the lower of the token's and the user's role in the chosen org", TIMEOUT, async () => {
  const { it, first, second, secret } = await withUser();
  await using _ = it;
  const by_default = await it.call<{ data: Me }>("GET", "/api/me", { token: secret });
  assert.deepEqual(by_default.body.data.org, { id: first.org_id, name: "First", role: "viewer" });
  assert.deepEqual(by_default.body.data.actor, { type: "user", id: "usr_ada", name: "Ada" });
  const named = await it.call<{ data: Me }>("GET", "/api/me", { token: secret, headers: { "x-service-org-id": second.org_id } });
  assert.equal(named.headers["x-service-org-id"], second.org_id);
  assert.equal(named.body.data.org.role, "operator");
  assert.deepEqual(
    named.body.data.orgs.map((org) => [org.id, org.default]),
    [
      [first.org_id, true],
      [second.org_id, false],
    ],
  );
});

test("returns 403 for an org without membership, and for a suspended or pending org", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const [mine, other] = [await it.org(), await it.org()];
  const foreign = await it.call("GET", "/api/me", { token: mine.token, headers: { "x-service-org-id": other.org_id } });
  assert.equal(foreign.status, 403);
  assert.match(foreign.body.error.message, new RegExp(other.org_id));
  const absent = await it.call("GET", "/api/me", { token: mine.token, headers: { "x-service-org-id": "org_gone" } });
  assert.equal(absent.status, 403);
  for (const status of ["suspended", "pending"]) {
    await it.plane.db.run(sql`update org set status = ${status} where id = ${mine.org_id}`);
    await it.clock.advance({ seconds: 2 });
    assert.equal((await it.call("GET", "/api/me", { token: mine.token })).status, 403, status);
  }
});

test("returns 401 for an expired token immediately, and for a revoked token within 2 s", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { org_id, token, token_id } = await it.org();
  const expires_at = new Date(it.clock.now().getTime() + 500);
  const { secret } = await createCredential(it.plane.db, it.plane, { kind: "org", org_id, role: "viewer", expires_at });
  assert.equal((await it.call("GET", "/api/me", { token: secret })).status, 200);
  await it.clock.advance({ milliseconds: 500 });
  for (let i = 0; i < 30; i += 1) {
    const expired = await it.call("GET", "/api/me", { token: secret });
    assert.equal(expired.status, 401);
    assert.match(expired.body.error.message, /expired/);
  }
  assert.equal((await it.call("GET", "/api/me", { token })).status, 200);
  await it.plane.db.run(sql`update credential set revoked_at = ${it.clock.now()} where id = ${token_id}`);
  await it.clock.advance({ seconds: 2 });
  const revoked = await it.call("GET", "/api/me", { token });
  assert.equal(revoked.status, 401);
  assert.match(revoked.body.error.message, /revoked/);
});

test("returns 429 for too many guessed tokens, without effect on valid tokens", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { token } = await it.org();
  const statuses = new Set<number>();
  for (let i = 0; i < 25; i += 1) statuses.add((await it.call("GET", "/api/me", { token: `guess${i}` })).status);
  assert.deepEqual([...statuses], [401, 429]);
  assert.equal((await it.call("GET", "/api/me", { token })).status, 200);
});

test("concurrent requests with one token share one database query", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { token, token_id, org_id } = await it.org();
  const callers = await Promise.all(Array.from({ length: 100 }, () => it.portal.authenticate(token, undefined)));
  assert.ok(callers.every((caller) => caller.org_id === org_id && caller.token_id === token_id));
  // Still cached: the present state of the database has no effect yet.
  await it.plane.db.run(sql`delete from credential where id = ${token_id}`);
  assert.equal((await it.portal.authenticate(token, org_id)).token_id, token_id);
  await it.clock.advance({ seconds: 1 });
  await assert.rejects(it.portal.authenticate(token, org_id), /not known/);
});

test("writes last_used_at in batches and never decreases it", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { token, token_id } = await it.org();
  const used = async () => (await it.plane.db.one(sql(usedRow)`select ${usedRow} from credential where id = ${token_id}`)).last_used_at;
  await it.call("GET", "/api/me", { token });
  assert.equal(await used(), null);
  await it.portal.flushUsed();
  assert.deepEqual(await used(), it.clock.now());
  const later = new Date(it.clock.now().getTime() + 60_000);
  await it.plane.db.run(sql`update credential set last_used_at = ${later} where id = ${token_id}`);
  await it.call("GET", "/api/me", { token });
  await it.portal.flushUsed();
  assert.deepEqual(await used(), later);
});

test("retries a failed write of last_used_at at the next flush", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { token, token_id } = await it.org();
  const used = async () => (await it.plane.db.one(sql(usedRow)`select ${usedRow} from credential where id = ${token_id}`)).last_used_at;
  await it.call("GET", "/api/me", { token });
  const at = it.clock.now();
  await it.plane.db.run(sql`alter table credential add constraint refuse_all check (last_used_at is null) not valid`);
  await assert.rejects(it.portal.flushUsed());
  await it.plane.db.run(sql`alter table credential drop constraint refuse_all`);
  await it.portal.flushUsed();
  assert.deepEqual(await used(), at);
});

test("two servers that write last_used_at of the same tokens do not deadlock", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { org_id } = await it.org();
  const ids: string[] = [];
  for (let i = 0; i < 200; i += 1)
    ids.push((await createCredential(it.plane.db, it.plane, { kind: "org", org_id, role: "viewer", label: "t" })).id);
  // The promise rejects if PostgreSQL aborts one of the two statements because of a deadlock.
  for (let round = 1; round <= 20; round += 1) {
    const uses = (order: string[]): Map<string, Date> => new Map(order.map((id) => [id, new Date(it.clock.now().getTime() + round)]));
    await Promise.all([updateLastUsed(it.plane.db, uses(ids)), updateLastUsed(it.plane.db, uses(ids.toReversed()))]);
  }
});

test("the database does not contain the secret part of a token", TIMEOUT, async () => {
  await using it = await startFeaturePlane([tokenRoutes]);
  const { token, token_id } = await it.org();
  const { whole } = await it.plane.db.one(sql(wholeRow)`select to_jsonb(c)::text as whole from credential c where id = ${token_id}`);
  assert.ok(!whole.includes(token.slice(12)));
});
