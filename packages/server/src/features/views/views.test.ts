import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Role } from "@roamfleet/protocol";
import type { AuditEntry, NewToken, SavedView, Site, User } from "@roamfleet/protocol/routes";
import { auditRoutes } from "../audit/index.ts";
import type { AnnouncedChange } from "../events/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { tokenRoutes } from "../tokens/index.ts";
import { userRoutes } from "../users/index.ts";
import { viewRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const OFFLINE = { page: "robots", name: "Offline", query: "status=offline" };

interface Answered<T> {
  data: T;
  items: SavedView[];
  error: { message: string };
}
type Method = "GET" | "POST" | "PATCH" | "DELETE";

async function startRig() {
  const it = await startFeaturePlane([viewRoutes, userRoutes, tokenRoutes, siteRoutes, auditRoutes]);
  const org = await it.org();
  /** Sends a request about views, as the admin by default. */
  const call = (method: Method, path: string, body?: object, token = org.token) =>
    it.call<Answered<SavedView>>(method, `/api/views${path}`, { token, ...(body === undefined ? {} : { body }) });
  const make = async <T>(path: string, body: object): Promise<T> =>
    (await it.call<{ data: T }>("POST", path, { token: org.token, body })).body.data;
  /** Creates a token of the org, or of a user. Returns its id and secret. */
  const issue = async (role: Role, of: { scopes?: object[]; user_id?: string } = {}) => {
    const { id, token } = await make<NewToken>("/api/tokens", { label: role, role, ...of });
    return { id, secret: token ?? "" };
  };
  /** Creates a user with a token. */
  const user = async (role: Role) => {
    const { id: user_id } = await make<User>("/api/users", { email: `${role}@example.org`, name: role, role });
    return { user_id, secret: (await issue(role, { user_id })).secret };
  };
  const names = async (secret: string): Promise<string[]> =>
    (await call("GET", "", undefined, secret)).body.items.map(({ name }) => name).toSorted();
  return { it, org, call, make, issue, user, names, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
}

test("only the user who saved a private view can read and change it, with any of the user's tokens", TIMEOUT, async () => {
  await using rig = await startRig();
  const [ada, bo] = [await rig.user("viewer"), await rig.user("operator")];
  const saved = await rig.call("POST", "", OFFLINE, ada.secret);
  assert.equal(saved.status, 201);
  const { id, shared, created_by, query } = saved.body.data;
  assert.deepEqual([id.slice(0, 5), shared, created_by.id, query], ["view_", false, ada.user_id, "status=offline"]);
  const second = await rig.issue("viewer", { user_id: ada.user_id });
  assert.deepEqual(await rig.names(second.secret), ["Offline"]);
  for (const secret of [bo.secret, rig.org.token]) {
    assert.deepEqual(await rig.names(secret), []);
    for (const [method, body] of [
      ["PATCH", { name: "Mine" }],
      ["DELETE", undefined],
    ] as const) {
      const reply = await rig.call(method, `/${id}`, body, secret);
      assert.deepEqual([reply.status, reply.body.error.message], [404, `view ${id} does not exist`]);
    }
  }
  const changed = await rig.call("PATCH", `/${id}`, { name: "Gone", query: "status=offline&sort=name" }, ada.secret);
  assert.deepEqual([changed.status, changed.body.data.name, changed.body.data.query], [200, "Gone", "status=offline&sort=name"]);
  assert.equal((await rig.call("DELETE", `/${id}`, undefined, ada.secret)).status, 200);
  assert.deepEqual(await rig.names(ada.secret), []);
});

test("only operators of the whole org share views, and change and delete shared ones", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id: site_id } = await rig.make<Site>("/api/sites", { name: "North" });
  const { secret: viewer } = await rig.issue("viewer");
  const { secret: limited } = await rig.issue("operator", { scopes: [{ site_id }] });
  const { secret: operator } = await rig.issue("operator");
  for (const secret of [viewer, limited]) assert.equal((await rig.call("POST", "", { ...OFFLINE, shared: true }, secret)).status, 403);
  const { id } = (await rig.call("POST", "", { ...OFFLINE, shared: true }, operator)).body.data;
  for (const secret of [viewer, limited]) {
    assert.deepEqual(await rig.names(secret), ["Offline"]);
    for (const [method, body] of [
      ["PATCH", {}],
      ["PATCH", { shared: false }],
      ["DELETE", undefined],
    ] as const)
      assert.equal((await rig.call(method, `/${id}`, body, secret)).status, 403);
    const own = (await rig.call("POST", "", OFFLINE, secret)).body.data;
    assert.equal((await rig.call("PATCH", `/${own.id}`, { shared: true }, secret)).status, 403);
  }
  // Another operator, here the admin, takes the view back from the other members.
  const taken = await rig.call("PATCH", `/${id}`, { shared: false });
  assert.deepEqual([taken.status, taken.body.data.shared], [200, false]);
  assert.deepEqual([await rig.names(operator), await rig.names(rig.org.token)], [[], ["Offline"]]);
});

test("callers limited to a site get no shared view that names an object", TIMEOUT, async () => {
  await using rig = await startRig();
  const { id: site_id } = await rig.make<Site>("/api/sites", { name: "North" });
  const { secret: limited } = await rig.issue("viewer", { scopes: [{ site_id }] });
  const share = (name: string, query: string) => rig.call("POST", "", { page: "metrics", name, query, shared: true });
  const hidden = (await share("By site", `panels=${encodeURIComponent(JSON.stringify([{ site_id }]))}`)).body.data;
  await share("By text", "q=cart_01");
  assert.deepEqual(await rig.names(limited), ["By text"]);
  assert.deepEqual(await rig.names(rig.org.token), ["By site", "By text"]);
  for (const [method, body] of [
    ["PATCH", {}],
    ["DELETE", undefined],
  ] as const)
    assert.equal((await rig.call(method, `/${hidden.id}`, body, limited)).status, 404);
});

test("a name is unique among the shared views of a page, and among the views of each owner", TIMEOUT, async () => {
  await using rig = await startRig();
  const { secret: other } = await rig.issue("operator");
  const statuses = [
    await rig.call("POST", "", OFFLINE),
    await rig.call("POST", "", OFFLINE),
    await rig.call("POST", "", { ...OFFLINE, page: "logs" }),
    await rig.call("POST", "", OFFLINE, other),
    await rig.call("POST", "", { ...OFFLINE, shared: true }),
    await rig.call("POST", "", { ...OFFLINE, shared: true }, other),
  ].map(({ status }) => status);
  assert.deepEqual(statuses, [201, 409, 201, 201, 201, 409]);
  const [own] = (await rig.call("GET", "")).body.items.filter(({ shared, page }) => !shared && page === "robots");
  const refused = await rig.call("PATCH", `/${own?.id ?? ""}`, { shared: true });
  assert.deepEqual([refused.status, refused.body.error.message], [409, "a shared view of robots with the name Offline exists already"]);
  const renamed = await rig.call("PATCH", `/${own?.id ?? ""}`, { shared: true, name: "Offline robots" });
  assert.deepEqual([renamed.status, renamed.body.data.shared], [200, true]);
});

test("limits how many views an owner has, and how long names and queries are", TIMEOUT, async () => {
  await using rig = await startRig();
  const { secret: other } = await rig.issue("viewer");
  for (let at = 0; at < 100; at += 1) assert.equal((await rig.call("POST", "", { ...OFFLINE, name: `View ${at}` })).status, 201);
  const refused = await rig.call("POST", "", OFFLINE);
  assert.deepEqual([refused.status, refused.body.error.message], [409, "you have 100 views: delete one first"]);
  assert.equal((await rig.call("POST", "", { ...OFFLINE, shared: true })).status, 201);
  assert.equal((await rig.call("POST", "", { ...OFFLINE, query: "q".repeat(8_000) }, other)).status, 201);
  for (const body of [
    { ...OFFLINE, query: "q".repeat(8_001) },
    { ...OFFLINE, name: "" },
    { ...OFFLINE, name: "n".repeat(201) },
    { ...OFFLINE, page: "no-such-page" },
  ])
    assert.equal((await rig.call("POST", "", body, other)).status, 400);
});

test("views of another org do not exist", TIMEOUT, async () => {
  await using rig = await startRig();
  const { token: foreign } = await rig.it.org();
  const { id } = (await rig.call("POST", "", { ...OFFLINE, shared: true })).body.data;
  assert.deepEqual(await rig.names(foreign), []);
  for (const [method, body] of [
    ["PATCH", { name: "Taken" }],
    ["DELETE", undefined],
  ] as const)
    assert.equal((await rig.call(method, `/${id}`, body, foreign)).status, 404);
  assert.equal((await rig.call("POST", "", { ...OFFLINE, shared: true }, foreign)).status, 201);
});

test("the removal of a user or token deletes its views, except shared ones", TIMEOUT, async () => {
  await using rig = await startRig();
  const [user, token] = [await rig.user("operator"), await rig.issue("operator")];
  for (const [at, { secret }] of [user, token].entries()) {
    await rig.call("POST", "", { ...OFFLINE, name: `Own ${at}` }, secret);
    await rig.call("POST", "", { ...OFFLINE, name: `Shared ${at}`, shared: true }, secret);
  }
  assert.equal((await rig.it.call("DELETE", `/api/users/${user.user_id}`, { token: rig.org.token })).status, 200);
  assert.equal((await rig.it.call("POST", `/api/tokens/${token.id}/revoke`, { token: rig.org.token, body: {} })).status, 200);
  assert.deepEqual(await rig.names(rig.org.token), ["Shared 0", "Shared 1"]);
  // The same person, added again, starts without views.
  const again = await rig.user("operator");
  assert.equal(again.user_id, user.user_id);
  assert.deepEqual(await rig.names(again.secret), ["Shared 0", "Shared 1"]);
});

test("audits the changed fields, and publishes changes of shared views only", TIMEOUT, async () => {
  await using rig = await startRig();
  const published: string[] = [];
  rig.it.plane.bus.subscribe(`rf.changes.${rig.org.org_id}`, (message) => {
    const { changes } = message as unknown as { changes: AnnouncedChange[] };
    published.push(...changes.map(({ kind, change }) => `${kind} ${change}`));
  });
  const { id } = (await rig.call("POST", "", OFFLINE)).body.data;
  await rig.call("PATCH", `/${id}`, { query: "status=online" });
  await rig.call("PATCH", `/${id}`, { shared: true });
  await rig.call("PATCH", `/${id}`, { shared: false });
  await rig.call("DELETE", `/${id}`);
  await rig.call("POST", "", { ...OFFLINE, shared: true });
  await until("the last change", () => published.includes("saved_view created"));
  assert.deepEqual(published, ["saved_view updated", "saved_view updated", "saved_view created"]);
  const audit = await rig.it.call<{ items: AuditEntry[] }>("GET", `/api/audit?object_id=${id}&action=updateView`, { token: rig.org.token });
  assert.deepEqual(
    audit.body.items.map(({ data }) => data["changes"]),
    [
      { shared: { before: true, after: false } },
      { shared: { before: false, after: true } },
      { query: { before: "status=offline", after: "status=online" } },
    ],
  );
});
