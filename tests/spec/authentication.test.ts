import assert from "node:assert/strict";
import { test } from "node:test";
import { ADMIN_TOKEN } from "../harness/index.ts";
import { checkTime } from "../harness/promise.ts";
import { createCredential } from "../../packages/server/src/features/tokens/index.ts";
import { idSource } from "@roamfleet/clock";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { documentOf, RfHome } from "../processes/rf.ts";
import { anonymous, httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();

test("the first token of an approved org starts with rf_org_ and has the role admin", LIMIT, async () => {
  const admin = httpOf(plane, ADMIN_TOKEN);
  const org = (await admin.post("/api/admin/orgs", { name: "Bootstrap" })).data;
  const { token } = (await admin.post(`/api/admin/orgs/${String(org.id)}/approve`)).data;
  assert.match(String(token), /^rf_org_[0-9a-f]{64}$/);
  const me = await httpOf(plane, String(token)).get("/api/me");
  assert.deepEqual((me.data.org as { id: string; role: string }).role, "admin");
  assert.equal(me.headers.get("x-service-org-id"), org.id);
});

test("a user token starts with rf_user_, and a header selects one of the user's orgs", LIMIT, async () => {
  const [one, two, three] = [plane.default_org, await plane.org("Second"), await plane.org("Third")];
  const now = plane.clock.now();
  const id = idSource(plane.clock);
  const user_id = id("usr");
  await plane.db.run(
    sql`insert into user_account (id, email, name, created_at, updated_at) values (${user_id}, ${"ada@example.org"}, ${"Ada"}, ${now}, ${now})`,
  );
  for (const [org, role] of [
    [one, "operator"],
    [two, "viewer"],
  ] as const) {
    await plane.db.run(
      sql`insert into membership (user_id, org_id, role, created_at, updated_at) values (${user_id}, ${org.id}, ${role}, ${now}, ${now})`,
    );
  }
  const { secret } = await createCredential(
    plane.db,
    { clock: plane.clock, id },
    { kind: "user", every_org: true, org_id: one.id, user_id, role: "admin" },
  );
  assert.match(secret, /^rf_user_[0-9a-f]{64}$/);
  const user = httpOf(plane, secret);
  const me = await user.get("/api/me");
  assert.equal(me.headers.get("x-service-org-id"), one.id);
  assert.deepEqual(
    (me.data.orgs as { id: string; role: string; default: boolean }[]).map((org) => [org.id, org.role, org.default]).toSorted(),
    [
      [one.id, "operator", true],
      [two.id, "viewer", false],
    ].toSorted(),
  );
  const second = { "x-service-org-id": two.id };
  assert.equal((await user.get("/api/robots", second)).headers.get("x-service-org-id"), two.id);
  assert.equal((await user.post("/api/sites", { name: "Ada's" })).status, 201);
  assert.match(
    (await user.post("/api/sites", { name: "Ada's" }, second)).refusal,
    /^403 forbidden/,
    "the role is that of the org, not the highest of all",
  );
  assert.match((await user.get("/api/robots", { "x-service-org-id": three.id })).refusal, /^403 forbidden/);
});

test("an enrollment key cannot be used as an API token, nor a token as an enrollment key", LIMIT, async () => {
  const key = await plane.enrollmentKey();
  assert.match(key, /^rf_enroll_[0-9a-f]{64}$/);
  assert.match((await httpOf(plane, key).get("/api/robots")).refusal, /^401 unauthorized/);
  const token = plane.default_org.admin_token;
  assert.match(
    (await anonymous(plane).post("/agent/enroll", { key: token, public_key: Buffer.alloc(32, 3).toString("base64") })).refusal,
    /^401 unauthorized/,
  );
});

test("logging out of rf leaves the token valid", LIMIT, async () => {
  await using home = await RfHome.make();
  const secret = await plane.token();
  await home.run(["login", "--token", secret, "--base-url", plane.url]);
  assert.deepEqual((documentOf(await home.run(["logout", "--json"])) as { data: { deleted: boolean } }).data.deleted, true);
  assert.equal((await httpOf(plane, secret).get("/api/me")).status, 200);
});

test("a token that was revoked is refused within two seconds", LIMIT, async (t) => {
  const secret = await plane.token();
  const http = httpOf(plane, secret);
  const { id } = (await http.get("/api/me")).data.token as { id: string };
  await plane.db.run(sql`update credential set revoked_at = ${plane.clock.now()} where id = ${id}`);
  const revoked_at = performance.now();
  await plane.until("the refusal", async () => (await http.get("/api/me")).status === 401);
  checkTime(t, "the token was refused", performance.now() - revoked_at, 2_000);
  assert.match((await http.get("/api/me")).refusal, /^401 unauthorized: the token was revoked/);
});

test("no token or enrollment key is logged", LIMIT, async () => {
  const key = await plane.enrollmentKey();
  const secret = await plane.token();
  await httpOf(plane, secret).get("/api/me");
  await anonymous(plane).post("/agent/enroll", { key, public_key: Buffer.alloc(32, 9).toString("base64") });
  assert.ok(!JSON.stringify(plane.logged).includes(secret.slice(7)) && !JSON.stringify(plane.logged).includes(key.slice(10)));
});
