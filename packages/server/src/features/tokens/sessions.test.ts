import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditEntry, Me, Session } from "@roamfleet/protocol/routes";
import { Networks } from "../../kernel/networks.ts";
import { hashProof } from "../../kernel/caller.ts";
import { int, row, sql, text } from "../../kernel/sql.ts";
import { auditRoutes } from "../audit/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { type FeaturePlane, type Reply, startFeaturePlane } from "../testing/feature-plane.ts";
import { SESSIONS_OF_TOKEN_MAX } from "./store.ts";
import { createCredential, sessionRoutes, sweepSessions, tokenRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const HOST = "fleet.test";
const ORIGIN = `http://${HOST}`;
const PATH = "/api/auth/session";
const HOUR_MS = 3_600_000;
type Refusal = { error: { code: string; message: string } };

const start = () => startFeaturePlane([tokenRoutes, sessionRoutes, siteRoutes, auditRoutes]);

/** A browser with its session cookie, which sends requests like the pages of the dashboard. */
class Browser {
  readonly it: FeaturePlane;
  readonly cookie: string;
  readonly session: Session;

  constructor(it: FeaturePlane, cookie: string, session: Session) {
    this.it = it;
    this.cookie = cookie;
    this.session = session;
  }

  static async signIn(it: FeaturePlane, token: string): Promise<Browser> {
    const { status, headers, body } = await it.call<{ data: Session }>("POST", PATH, { token, headers: { host: HOST } });
    assert.equal(status, 201);
    return new Browser(it, cookieOf(headers), body.data);
  }

  get<T = Refusal>(path: string, headers: Record<string, string> = {}): Promise<Reply<T>> {
    return this.it.call<T>("GET", path, { headers: { host: HOST, cookie: this.cookie, ...headers } });
  }

  /** Sends a changing request like the dashboard's pages. `headers` override its default headers. */
  change<T = Refusal>(
    method: "POST" | "PATCH" | "DELETE",
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply<T>> {
    const own = { host: HOST, cookie: this.cookie, origin: ORIGIN, "x-csrf-token": this.session.csrf_token ?? "" };
    return this.it.call<T>(method, path, { body, headers: { ...own, ...headers } });
  }

  status = async (): Promise<number> => (await this.get("/api/me")).status;
}

const setCookieOf = (headers: Reply<unknown>["headers"]): string => (headers["set-cookie"] as string[] | undefined)?.[0] ?? "";
const cookieOf = (headers: Reply<unknown>["headers"]): string => setCookieOf(headers).split(";")[0] ?? "";
const isCleared = ({ headers }: Reply<unknown>): boolean => /^roamfleet_session=; .*Max-Age=0;/.test(setCookieOf(headers));

/** Creates a user of two orgs with a token for both, and a third org. */
async function userOfTwo(it: FeaturePlane) {
  const [first, second, other] = [await it.org(), await it.org(), await it.org()];
  const now = it.clock.now();
  await it.plane.db.run(
    sql`insert into user_account (id, email, name, created_at, updated_at) values ('usr_ada', 'ada@example.org', 'Ada', ${now}, ${now})`,
  );
  await it.plane.db.run(sql`
    insert into membership (org_id, user_id, role, created_at, updated_at) values (${first.org_id}, 'usr_ada', 'viewer', ${now}, ${now}), (${second.org_id}, 'usr_ada', 'admin', ${now}, ${now})`);
  const { secret } = await createCredential(it.plane.db, it.plane, {
    kind: "user",
    every_org: true,
    org_id: first.org_id,
    user_id: "usr_ada",
    role: "admin",
  });
  return { first, second, other, token: secret };
}

test("exchanges a token for an HttpOnly session cookie, of which only the hash is stored", TIMEOUT, async () => {
  await using it = await start();
  const { org_id, token, token_id } = await it.org();
  const made = await it.call<{ data: Session }>("POST", PATH, { token, headers: { host: HOST } });
  assert.deepEqual([made.status, made.headers.location], [201, PATH]);
  assert.match(
    setCookieOf(made.headers),
    /^roamfleet_session=rf_session_[0-9a-f]{64}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/,
  );
  const secret = cookieOf(made.headers).split("=")[1] ?? "";
  assert.ok(!JSON.stringify(made.body).includes(secret.slice(0, 20)));
  const browser = new Browser(it, cookieOf(made.headers), made.body.data);
  const me = await browser.get<{ data: Me }>("/api/me");
  assert.deepEqual([me.status, me.headers["x-service-org-id"], me.body.data.token.id], [200, org_id, token_id]);
  const again = await browser.get<{ data: Session }>(PATH);
  assert.deepEqual(again.body.data, made.body.data);
  assert.deepEqual([again.body.data.org_id, again.body.data.token_id, again.body.data.idle_hours], [org_id, token_id, 12]);
  const { whole } = await it.plane.db.one(sql(row({ whole: text }))`select to_jsonb(s)::text as whole from web_session s`);
  for (const kept of [secret.slice(11), made.body.data.csrf_token ?? ""]) assert.ok(!whole.includes(kept));
  // The session is not in the list of tokens.
  assert.equal((await browser.get<{ items: unknown[] }>("/api/tokens")).body.items.length, 1);
});

test("behind a TLS proxy, only a Secure session cookie with the __Host- prefix is accepted", TIMEOUT, async () => {
  await using it = await start();
  Object.assign(it.plane, { proxies: new Networks(["127.0.0.1"]) });
  const { token } = await it.org();
  const { headers, body } = await it.call<{ data: Session }>("POST", PATH, { token, headers: { host: HOST } });
  assert.match(setCookieOf(headers), /^__Host-roamfleet_session=rf_session_.*; HttpOnly; SameSite=Strict; Secure$/);
  const browser = new Browser(it, cookieOf(headers), body.data);
  assert.equal(await browser.status(), 200);
  assert.equal(await new Browser(it, browser.cookie.replace("__Host-", ""), body.data).status(), 401);
  assert.equal((await browser.change("POST", "/api/sites", { name: "A" })).status, 403, "http:// is another origin");
  assert.equal((await browser.change("POST", "/api/sites", { name: "A" }, { origin: `https://${HOST}` })).status, 201);
  // Headers of a proxy that serves another name.
  const forwarded = { "x-forwarded-host": "fleet.example.org", origin: "https://fleet.example.org" };
  assert.equal((await browser.change("POST", "/api/sites", { name: "B" }, forwarded)).status, 201);
  const plain = await it.call("POST", PATH, { token, headers: { host: HOST, "x-forwarded-proto": "http" } });
  assert.match(setCookieOf(plain.headers), /^roamfleet_session=.*SameSite=Strict$/);
});

test("refuses changing requests by cookie without the CSRF token or from another origin", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const [browser, other] = [await Browser.signIn(it, token), await Browser.signIn(it, token)];
  const cases: [string, Record<string, string>][] = [
    ["no token", { "x-csrf-token": "" }],
    ["a wrong one", { "x-csrf-token": `rf_csrf_${"0".repeat(64)}` }],
    ["another session's", { "x-csrf-token": other.session.csrf_token ?? "" }],
    ["another site", { origin: "http://evil.test" }],
    ["another port", { origin: `${ORIGIN}:8080` }],
    ["another scheme", { origin: `https://${HOST}` }],
    ["a sandboxed page", { origin: "null" }],
    ["no origin", { origin: "" }],
    ["headers of an untrusted proxy", { "x-forwarded-host": "evil.test", origin: "http://evil.test" }],
  ];
  for (const [name, headers] of cases) {
    const refused = await browser.change("POST", "/api/sites", { name }, headers);
    assert.deepEqual([name, refused.status, refused.body.error.code], [name, 403, "forbidden"]);
    assert.ok(!isCleared(refused), "the cookie is not cleared");
  }
  assert.equal((await browser.change("POST", "/api/sites", { name: "mine" })).status, 201);
  // Reads need neither the CSRF token nor the origin: browsers do not let another site's page read the response.
  assert.equal((await browser.get("/api/sites", { origin: "http://evil.test" })).status, 200);
  const { items } = (await browser.get<{ items: AuditEntry[] }>("/api/audit?action=createSite")).body;
  assert.deepEqual(
    items.map(({ status, data }) => [status, data.session_id]),
    [[201, browser.session.id], ...cases.map(() => [403, browser.session.id])],
  );
});

test("an Authorization header takes precedence over the cookie, even if it is invalid", TIMEOUT, async () => {
  await using it = await start();
  const [mine, other] = [await it.org(), await it.org()];
  const browser = await Browser.signIn(it, mine.token);
  const by_header = await browser.get<{ data: Me }>("/api/me", { authorization: `Bearer ${other.token}` });
  assert.equal(by_header.body.data.org.id, other.org_id);
  const made = await it.call("POST", "/api/sites", { token: other.token, body: { name: "x" }, headers: { cookie: browser.cookie } });
  assert.equal(made.status, 201);
  assert.equal((await browser.get("/api/me", { authorization: "Basic YTpi" })).status, 401);
  assert.equal((await browser.get("/api/me", { authorization: "Bearer rf_org_wrong" })).status, 401);
});

test("clears an invalid session cookie, and accepts a session's secret only in the cookie", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const browser = await Browser.signIn(it, token);
  const secret = browser.cookie.split("=")[1] ?? "";
  for (const cookie of [
    "roamfleet_session=x",
    `roamfleet_session=rf_session_${"0".repeat(64)}`,
    `roamfleet_session=${token}`,
    `a=b; roamfleet_session=${secret}0`,
  ]) {
    const refused = await new Browser(it, cookie, browser.session).get("/api/me");
    assert.deepEqual([cookie, refused.status, isCleared(refused)], [cookie, 401, true]);
  }
  assert.equal(await new Browser(it, `${browser.cookie}; roamfleet_session=x`, browser.session).status(), 401);
  assert.equal(await new Browser(it, `a=b; ${browser.cookie}; c`, browser.session).status(), 200);
  assert.equal((await it.call("GET", "/api/me", { token: secret })).status, 401);
  assert.equal((await it.call("GET", "/api/me", { headers: { cookie: "theme=dark" } })).status, 401);
  // Guessed cookies are rate-limited like guessed tokens, and are cleared too.
  let last: Reply<unknown> | undefined;
  for (let i = 0; i < 20; i += 1) last = await new Browser(it, `roamfleet_session=guess${i}`, browser.session).get("/api/me");
  assert.deepEqual([last?.status, last !== undefined && isCleared(last)], [429, true]);
  assert.equal(await browser.status(), 200);
});

test("ends a session when its token is revoked, expires or is rotated", TIMEOUT, async () => {
  await using it = await start();
  const { org_id, token: admin } = await it.org();
  const soon = new Date(it.clock.now().getTime() + HOUR_MS);
  const make = (expires_at?: Date) =>
    createCredential(it.plane.db, it.plane, { kind: "org", org_id, role: "viewer", ...(expires_at === undefined ? {} : { expires_at }) });
  const [revoked, expired, rotated, overlapped] = [await make(), await make(soon), await make(), await make()];
  const browsers = await Promise.all([revoked, expired, rotated, overlapped].map(({ secret }) => Browser.signIn(it, secret)));
  assert.equal(browsers[1]?.session.expires_at, soon.toISOString(), "the session ends with its token");
  const statuses = () => Promise.all(browsers.map((browser) => browser.status()));
  assert.deepEqual(await statuses(), [200, 200, 200, 200]);
  await it.call("POST", `/api/tokens/${revoked.id}/revoke`, { token: admin });
  await it.call("POST", `/api/tokens/${rotated.id}/rotate`, { token: admin });
  await it.call("POST", `/api/tokens/${overlapped.id}/rotate`, { token: admin, body: { overlap_seconds: 600 } });
  await it.clock.advance({ seconds: 2 });
  assert.deepEqual(await statuses(), [401, 200, 401, 200]);
  await it.clock.advance({ seconds: 600 });
  assert.deepEqual(await statuses(), [401, 200, 401, 401]);
  await it.clock.advance({ seconds: 3_600 });
  assert.deepEqual(await statuses(), [401, 401, 401, 401]);
  for (const browser of browsers) assert.ok(isCleared(await browser.get("/api/me")));
  // Cookies of ended sessions do not count as guesses, so no request is rate-limited.
  for (let i = 0; i < 10; i += 1) assert.deepEqual(await statuses(), [401, 401, 401, 401]);
});

test("an idle session ends after 12 hours, and a used session after a week", TIMEOUT, async () => {
  await using it = await start();
  const { org_id, token } = await it.org();
  const [left, watched, used] = [await Browser.signIn(it, token), await Browser.signIn(it, token), await Browser.signIn(it, token)];
  const secret = watched.cookie.split("=")[1] ?? "";
  for (let hour = 0; hour < 13; hour += 1) {
    await it.clock.advance({ hours: 1 });
    await it.portal.recheck(hashProof({ by: "session", secret }), org_id).catch(() => {});
    assert.equal(await used.status(), 200);
    await it.portal.flushUsed();
  }
  assert.deepEqual([await left.status(), await watched.status(), await used.status()], [401, 401, 200]);
  for (let hour = 13; hour < 7 * 24; hour += 11) {
    await it.clock.advance({ hours: Math.min(11, 7 * 24 - hour) });
    if (hour + 11 < 7 * 24) assert.equal(await used.status(), 200);
    await it.portal.flushUsed();
  }
  assert.equal(await used.status(), 401);
});

test("signing out ends only that session, immediately", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const [browser, other] = [await Browser.signIn(it, token), await Browser.signIn(it, token)];
  assert.equal((await browser.change("DELETE", PATH, undefined, { origin: "http://evil.test" })).status, 403);
  const out = await browser.change("DELETE", PATH);
  assert.deepEqual([out.status, isCleared(out)], [204, true]);
  assert.deepEqual([await browser.status(), await other.status()], [401, 200]);
  assert.equal((await it.call("GET", "/api/me", { token })).status, 200);
  const { items } = (await other.get<{ items: AuditEntry[] }>("/api/audit?action=endSession&outcome=done")).body;
  assert.deepEqual(
    items.map(({ object_id }) => object_id),
    [browser.session.id],
  );
});

test("a session can switch to another org of its user, but not to other orgs", TIMEOUT, async () => {
  await using it = await start();
  const { first, second, other, token } = await userOfTwo(it);
  const browser = await Browser.signIn(it, token);
  assert.equal((await browser.get<{ data: Me }>("/api/me")).body.data.org.role, "viewer");
  assert.equal((await browser.change("POST", "/api/sites", { name: "x" })).status, 403);
  for (const org_id of [other.org_id, "org_none"]) assert.equal((await browser.change("PATCH", PATH, { org_id })).status, 404, org_id);
  const moved = await browser.change<{ data: Session }>("PATCH", PATH, { org_id: second.org_id });
  assert.deepEqual(
    [moved.status, moved.headers["x-service-org-id"], moved.body.data.org_id, moved.body.data.csrf_token],
    [200, second.org_id, second.org_id, browser.session.csrf_token],
  );
  const made = await browser.change("POST", "/api/sites", { name: "x" });
  assert.deepEqual([made.status, made.headers["x-service-org-id"]], [201, second.org_id]);
  // A page that still shows the first org writes nothing into the second.
  const stale = await browser.change("POST", "/api/sites", { name: "y" }, { "x-service-org-id": first.org_id });
  assert.deepEqual([stale.status, stale.headers["set-cookie"]], [403, undefined]);
  assert.equal((await browser.get("/api/sites", { "x-service-org-id": second.org_id })).status, 200);
});

test("a session can only be created with a token, and only be changed with its cookie", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const browser = await Browser.signIn(it, token);
  assert.equal((await browser.change("POST", PATH)).status, 403);
  for (const [method, body] of [
    ["GET", undefined],
    ["PATCH", { org_id: "org_x" }],
    ["DELETE", undefined],
  ] as const)
    assert.equal((await it.call(method, PATH, { token, body })).status, 400, method);
  assert.equal((await it.call("POST", PATH)).status, 401);
});

test("a replayed sign-in creates no second session, and returns no cookie or CSRF token", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const ask = () => it.call<{ data: Session }>("POST", PATH, { token, headers: { host: HOST, "idempotency-key": "once" } });
  const [first, second] = [await ask(), await ask()];
  assert.equal(await new Browser(it, cookieOf(first.headers), first.body.data).status(), 200);
  assert.deepEqual([second.status, second.headers["idempotency-replayed"], second.headers["set-cookie"]], [201, "true", undefined]);
  assert.deepEqual(second.body.data, { ...first.body.data, csrf_token: null });
});

test("a new session above a token's limit ends the least recently used session", TIMEOUT, async () => {
  await using it = await start();
  const { token, token_id } = await it.org();
  const [oldest, used] = [await Browser.signIn(it, token), await Browser.signIn(it, token)];
  await it.clock.advance({ seconds: 10 });
  assert.equal(await used.status(), 200);
  await it.portal.flushUsed();
  await it.plane.db.run(sql`
    insert into web_session (id, hash, token_id, token_hash, current_org_id, expires_at, used_at, created_at, updated_at)
    select 'sess_' || n, sha256(n::text::bytea), token_id, token_hash, current_org_id, expires_at, ${it.clock.now()}, created_at, updated_at
    from web_session, generate_series(3, ${SESSIONS_OF_TOKEN_MAX}) n where id = ${oldest.session.id}`);
  await Browser.signIn(it, token);
  await it.clock.advance({ seconds: 2 });
  assert.deepEqual([await oldest.status(), await used.status()], [401, 200]);
  const of_token = row({ count: int });
  const { count } = await it.plane.db.one(sql(of_token)`select count(*)::int as count from web_session where token_id = ${token_id}`);
  assert.equal(count, SESSIONS_OF_TOKEN_MAX);
});

test("deletes sessions a day after they end, or when their token is deleted", TIMEOUT, async () => {
  await using it = await start();
  const { token, token_id } = await it.org();
  const count = async () => (await it.plane.db.one(sql(row({ count: int }))`select count(*)::int as count from web_session`)).count;
  await Browser.signIn(it, token);
  const used = await Browser.signIn(it, token);
  for (let hour = 0; hour < 40; hour += 10) {
    await it.clock.advance({ hours: 10 });
    assert.equal(await used.status(), 200);
    await it.portal.flushUsed();
    if (hour < 20) assert.equal(await sweepSessions(it.plane), 0, "it is not deleted yet");
  }
  assert.deepEqual([await sweepSessions(it.plane), await count()], [1, 1]);
  await it.plane.db.run(sql`delete from credential where id = ${token_id}`);
  assert.equal(await count(), 0);
});
