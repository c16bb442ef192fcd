import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditEntry } from "@roamfleet/protocol/routes";
import { nullable, row, sql, text } from "../../kernel/sql.ts";
import { orgRoutes } from "../orgs/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { auditRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type Audit = { items: AuditEntry[]; next_cursor: string | null };

test("a request that changes something writes an entry with actor, action, address and result", TIMEOUT, async () => {
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

test("a request repeated with the same Idempotency-Key writes no second entry", TIMEOUT, async () => {
  await using it = await startFeaturePlane([auditRoutes, siteRoutes]);
  const { token } = await it.org();
  for (let i = 0; i < 3; i += 1)
    await it.call("POST", "/api/sites", { token, body: { name: "Hamburg" }, headers: { "idempotency-key": "same" } });
  assert.equal((await it.call<Audit>("GET", "/api/audit", { token })).body.items.length, 1);
});

test("403: only admins read the audit, and a request refused for its role is in it", TIMEOUT, async () => {
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

test("an org reads only its own entries, in pages and as an NDJSON export", TIMEOUT, async () => {
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
  assert.deepEqual(lines, [...first.body.items, ...rest.body.items].toReversed());
});

test("actions of the service's administrator on an org are in that org's audit", TIMEOUT, async () => {
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
