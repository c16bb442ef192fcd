import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApprovedOrg, Me, Org } from "@robofleet/protocol/routes";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { tokenRoutes } from "../tokens/index.ts";
import { orgRoutes } from "./index.ts";

const TIMEOUT = { timeout: 60_000 };
const ADMIN = "service-admin-token";
const start = () => startFeaturePlane([orgRoutes, tokenRoutes], { admin_token: ADMIN });

test("an org is pending until it is approved, and its first token is answered once", TIMEOUT, async () => {
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

test("of two approvals at once one answers the token, the other 409", TIMEOUT, async () => {
  await using it = await start();
  const { body } = await it.call<{ data: Org }>("POST", "/api/admin/orgs", { token: ADMIN, body: { name: "Acme" } });
  const both = await Promise.all([1, 2].map(() => it.call("POST", `/api/admin/orgs/${body.data.id}/approve`, { token: ADMIN })));
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409]);
});

test("a replayed approval answers no token", TIMEOUT, async () => {
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

test("409: a name that is taken; 404: an org that is not there; 400: no name; 401 and 403: not the admin", TIMEOUT, async () => {
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

test("orgs are listed newest first, by status, page by page", TIMEOUT, async () => {
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
