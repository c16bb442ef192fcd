import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditEntry } from "@roamfleet/protocol/routes";
import { dropAuditEntries } from "../../kernel/audit.ts";
import { toFault } from "../../kernel/http.ts";
import { MAX_ID } from "../../kernel/page.ts";
import { BATCH_ROWS_MAX } from "../../kernel/retention.ts";
import { json, nullable, row, sql, text } from "../../kernel/sql.ts";
import { alertRoutes, channelRoutes } from "../alerts/index.ts";
import { orgRoutes } from "../orgs/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { explain } from "../testing/explain.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { userRoutes } from "../users/index.ts";
import { auditRoutes } from "./index.ts";
import { type EntryFilter, newestEntries } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };
type Audit = { items: AuditEntry[]; next_cursor: string | null };

test("writes an audit entry with actor, action, client address and result for each request that changes something", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const { token, token_id } = await it.org();
  const headers = { "user-agent": "curl/8", "x-request-id": "r-1" };
  const made = await it.call<{ data: { id: string } }>("POST", "/api/sites", { token, body: { name: "Hamburg" }, headers });
  assert.equal(made.status, 201);
  const { id } = made.body.data;
  assert.equal((await it.call("DELETE", `/api/sites/${id}?x=rf_secret`, { token })).status, 400);
  assert.equal((await it.call("PATCH", `/api/sites/${id}`, { token, body: { name: "Kiel" }, remote_address: "127.0.0.7" })).status, 200);
  assert.equal((await it.call("GET", `/api/sites/${id}`, { token })).status, 200);
  const { body } = await it.call<Audit>("GET", "/api/audit", { token });
  const [patched, refused, created] = body.items;
  assert.equal(body.items.length, 3);
  const actor = { type: "org_token", id: token_id };
  assert.deepEqual(
    [created, refused, patched].map((entry) => [entry?.action, entry?.object_id, entry?.status, entry?.error, entry?.path]),
    [
      ["createSite", id, 201, null, "/api/sites"],
      ["deleteSite", id, 400, "bad_request", `/api/sites/${id}`],
      ["updateSite", id, 200, null, `/api/sites/${id}`],
    ],
  );
  assert.deepEqual([created?.user_agent, created?.request_id, created?.token_id, patched?.ip], ["curl/8", "r-1", token_id, "127.0.0.7"]);
  assert.deepEqual({ type: created?.actor.type, id: created?.actor.id }, actor);
  const filtered = await it.call<Audit>("GET", `/api/audit?object_id=${id}&outcome=refused`, { token });
  assert.deepEqual(
    filtered.body.items.map(({ action }) => action),
    ["deleteSite"],
  );
});

test("a change is rolled back when its audit entry cannot be written", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const { token, org_id } = await it.org();
  await it.plane.db.run(sql`alter table audit_entry add constraint refuse_all check (status >= 400) not valid`);
  assert.equal((await it.call("POST", "/api/sites", { token, body: { name: "Hamburg" } })).status, 500);
  assert.equal(
    (await it.call("POST", "/api/sites", { token, body: { name: "Hamburg" }, headers: { "idempotency-key": "k" } })).status,
    500,
  );
  await it.plane.db.run(sql`alter table audit_entry drop constraint refuse_all`);
  assert.deepEqual((await it.call<Audit>("GET", "/api/sites", { token })).body.items, [], org_id);
});

test("records the fields that a request changed, and names the object by its current name", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const { token } = await it.org();
  const { id } = (await it.call<{ data: { id: string } }>("POST", "/api/sites", { token, body: { name: "Hamburg" } })).body.data;
  for (const name of ["Kiel", "Kiel"]) await it.call("PATCH", `/api/sites/${id}`, { token, body: { name } });
  const read = async (query = "") => (await it.call<Audit>("GET", `/api/audit${query}`, { token })).body.items;
  assert.deepEqual(
    (await read()).map(({ data, object_name }) => [data.changes, object_name]),
    [
      [{}, "Kiel"],
      [{ name: { before: "Hamburg", after: "Kiel" } }, "Kiel"],
      [undefined, "Kiel"],
    ],
  );
  assert.equal((await it.call("DELETE", `/api/sites/${id}`, { token })).status, 200);
  assert.deepEqual([...new Set((await read()).map(({ object_name }) => object_name))], [null]);
});

test("records what changed in users, alert rules, channels and settings of the org, without secrets", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, userRoutes, orgRoutes, alertRoutes, channelRoutes]);
  const { token } = await it.org({ role: "admin" });
  const send = async (method: "POST" | "PATCH", path: string, body: object): Promise<string> => {
    const answer = await it.call<{ data: { id: string } }>(method, path, { token, body });
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body.data.id;
  };
  const user = await send("POST", "/api/users", { email: "ada@example.org", name: "Ada", role: "viewer" });
  await send("PATCH", `/api/users/${user}`, { role: "operator" });
  const rule = await send("POST", "/api/alert-rules", { name: "Drift", condition: { type: "config_drift" }, severity: "info" });
  await send("PATCH", `/api/alert-rules/${rule}`, { severity: "critical", for_seconds: 60 });
  const channel = await send("POST", "/api/channels", { name: "Ops", kind: "webhook", url: "https://example.org/first-secret" });
  await send("PATCH", `/api/channels/${channel}`, { url: "https://example.com/second-secret" });
  await send("PATCH", "/api/org", { settings: { deployment_expires_days: 3 } });
  const { items } = (await it.call<Audit>("GET", "/api/audit", { token })).body;
  assert.deepEqual(
    items.flatMap(({ action, data }) => (data.changes === undefined ? [] : [[action, data.changes]])),
    [
      ["updateOrg", { settings: { before: { deployment_expires_days: null }, after: { deployment_expires_days: 3 } } }],
      ["updateChannel", { destination: { before: "example.org", after: "example.com" } }],
      ["updateAlertRule", { severity: { before: "info", after: "critical" }, for_seconds: { before: 0, after: 60 } }],
      ["updateUser", { grants: { before: [{ role: "viewer", scopes: [] }], after: [{ role: "operator", scopes: [] }] } }],
    ],
  );
  assert.doesNotMatch(JSON.stringify(items), /secret/);
});

test("lists only what was changed with changes=true: requests, shells, tunnels and file transfers", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes]);
  const { token, org_id } = await it.org();
  for (const [method, data] of [
    ["POST", {}],
    ["GET", {}],
    ["GET", { stream: "logs" }],
    ["GET", { stream: "shell" }],
    ["GET", { stream: "forward" }],
    ["GET", { stream: "files" }],
  ] as const)
    await it.plane.db.run(sql`
      insert into audit_entry (org_id, id, at, actor, action, method, path, ip, request_id, data)
      values (${org_id}, ${it.plane.id("aud")}, ${it.plane.clock.now()}, '{}', 'a', ${method}, '/', '192.0.2.1', 'r', ${json(data)})`);
  const read = async (query: string) => (await it.call<Audit>("GET", `/api/audit${query}`, { token })).body.items;
  assert.equal((await read("")).length, 6);
  assert.deepEqual(
    (await read("?changes=true")).map(({ method, data }) => data.stream ?? method),
    ["files", "forward", "shell", "POST"],
  );
});

test("a request repeated with the same Idempotency-Key writes no second audit entry", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const { token } = await it.org();
  for (let i = 0; i < 3; i += 1)
    await it.call("POST", "/api/sites", { token, body: { name: "Hamburg" }, headers: { "idempotency-key": "same" } });
  assert.equal((await it.call<Audit>("GET", "/api/audit", { token })).body.items.length, 1);
});

test("only admins read the audit log, which records requests refused for their role", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const { token: viewer, token_id } = await it.org({ role: "viewer" });
  assert.equal((await it.call("GET", "/api/audit", { token: viewer })).status, 403);
  assert.equal((await it.call("GET", "/api/audit/export", { token: viewer })).status, 403);
  assert.equal((await it.call("POST", "/api/sites", { token: viewer, body: { name: "x" } })).status, 403);
  const entry = row({ error: nullable(text), action: text });
  assert.deepEqual(await it.plane.db.many(sql(entry)`select error, action from audit_entry where token_id = ${token_id}`), [
    { error: "forbidden", action: "createSite" },
  ]);
});

test("returns only the org's audit entries, in pages and as an NDJSON export", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const [mine, other] = [await it.org(), await it.org()];
  for (let n = 0; n < 5; n += 1) await it.call("POST", "/api/sites", { token: mine.token, body: { name: `site ${n}` } });
  await it.call("POST", "/api/sites", { token: other.token, body: { name: "other site" } });
  const first = await it.call<Audit>("GET", "/api/audit?limit=3", { token: mine.token });
  const rest = await it.call<Audit>("GET", `/api/audit?limit=3&cursor=${first.body.next_cursor}`, { token: mine.token });
  assert.deepEqual([first.body.items.length, rest.body.items.length, rest.body.next_cursor], [3, 2, null]);
  const exported = await it.call<string>("GET", "/api/audit/export", { token: mine.token });
  assert.equal(exported.headers["content-type"], "application/x-ndjson");
  const lines = exported.body
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as AuditEntry);
  const listed = [...first.body.items, ...rest.body.items].toReversed();
  assert.deepEqual(
    listed.map(({ object_name }) => object_name),
    ["site 0", "site 1", "site 2", "site 3", "site 4"],
  );
  assert.deepEqual(
    lines,
    listed.map(({ object_name: _, ...entry }) => entry),
  );
});

test("actions of the service administrator on an org appear in that org's audit log", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, orgRoutes], { admin_token: "s3cret" });
  const admin = { headers: { "x-service-admin-token": "s3cret" } };
  const { data } = (await it.call<{ data: { id: string } }>("POST", "/api/admin/orgs", { ...admin, body: { name: "Acme" } })).body;
  const approved = await it.call<{ data: { token: string } }>("POST", `/api/admin/orgs/${data.id}/approve`, admin);
  const { token } = approved.body.data;
  assert.deepEqual(
    (await it.call<Audit>("GET", "/api/audit", { token })).body.items.map(({ action, actor }) => [action, actor.type]),
    [
      ["approveOrg", "admin"],
      ["createOrg", "admin"],
    ],
  );
  assert.equal((await it.call("POST", "/api/admin/orgs/org_none/approve", admin)).status, 404);
  assert.deepEqual(
    (await it.call<Audit>("GET", "/api/admin/audit", admin)).body.items.map(({ action, status }) => [action, status]),
    [["approveOrg", 404]],
  );
});

const ROWS = 50_000;

test("an audit query with any filter reads no more rows than its page limit", TIMEOUT, async (t) => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const insert = (org_id: string, count: number, { prefix, actor, word }: { prefix: string; actor: string; word: string }) =>
    plane.db.run(sql`
      insert into audit_entry (org_id, id, at, actor, token_id, action, method, path, object_id, ip, error, request_id)
      select ${org_id}, ${prefix}::text || lpad(n::text, 10, '0'), ${plane.clock.now()}, jsonb_build_object('type', 'user', 'id', ${actor}::text),
        ${`tok_${word}`}, ${word}, 'POST', '/api/sites', ${`site_${word}`}, '192.0.2.1', case when ${word}::text = 'rare' then 'conflict' end, 'r'
      from generate_series(1, ${count}::int) n`);
  await insert("org_a", 3, { prefix: "aud_0", actor: "usr_rare", word: "rare" });
  await insert("org_a", ROWS, { prefix: "aud_1", actor: "usr_common", word: "common" });
  // Streams that only read, newer than all changes.
  await plane.db.run(sql`
    insert into audit_entry (org_id, id, at, actor, action, method, path, ip, request_id, data)
    select 'org_a', 'aud_2' || lpad(n::text, 10, '0'), ${plane.clock.now()}, '{}', 'stream.opened', 'GET', '/', '192.0.2.1', 'r', '{"stream":"logs"}'
    from generate_series(1, ${ROWS}::int) n`);
  await plane.db.run(sql`analyze audit_entry`);
  const filters: EntryFilter[] = [
    { actor_id: "usr_rare" },
    { token_id: "tok_rare" },
    { action: "rare" },
    { object_id: "site_rare" },
    { outcome: "refused" },
    { changes: true },
    { actor_id: "usr_nobody" },
    { token_id: "tok_nothing" },
  ];
  for (const filter of filters) {
    const { rows, ms } = await explain(plane.db.forOrg("org_a"), (db) => newestEntries(db, "org_a", filter, MAX_ID, 200));
    t.diagnostic(`${JSON.stringify(filter)}: ${rows} rows, ${ms} ms`);
    assert.ok(rows <= 200, JSON.stringify(filter));
  }
});

test("returns 503 with a reason when the database cancels a slow statement", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const failed = await plane.db
    .transaction(async (tx) => {
      await tx.run(sql`set local statement_timeout = '20ms'`);
      await tx.run(sql`select pg_sleep(10)`);
    })
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  const { status, code, message, headers } = toFault(plane, failed);
  assert.deepEqual([status, code, headers], [503, "http_error", { "retry-after": "5" }]);
  assert.match(message, /took too long/);
});

test("deletes audit entries past the retention time, including those of deleted orgs and of the service", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane, clock } = it;
  const orgs = ["", (await it.org()).org_id, "org_gone"];
  const insert = async (org_id: string, count: number): Promise<void> => {
    const ids = Array.from({ length: count }, () => plane.id("aud"));
    await plane.db.run(sql`
      insert into audit_entry (org_id, id, at, actor, action, method, path, ip, request_id)
      select ${org_id}, e.id, ${clock.now()}, '{"type":"admin"}', 'createSite', 'POST', '/api/sites', '192.0.2.1', 'r'
      from jsonb_array_elements_text(${JSON.stringify(ids)}::jsonb) e (id)`);
  };
  for (const org_id of orgs) await insert(org_id, 3);
  await insert("org_gone", BATCH_ROWS_MAX + 1);
  await clock.advance({ hours: 48 });
  const before = clock.now();
  await clock.advance({ hours: 1 });
  for (const org_id of orgs) await insert(org_id, 1);
  await dropAuditEntries(plane, before);
  const left = await plane.db.many(sql(row({ org_id: text }))`select org_id from audit_entry order by org_id`);
  assert.deepEqual(
    left.map(({ org_id }) => org_id),
    orgs.toSorted(),
  );
});
