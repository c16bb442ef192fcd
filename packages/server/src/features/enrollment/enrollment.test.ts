import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Enrolled, EnrollmentKey, NewEnrollmentKey, Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { bool, int, row, sql, text } from "../../kernel/sql.ts";
import { fleetRoutes } from "../fleets/index.ts";
import { robotRoutes } from "../robots/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { enrollRobot, makePlace, newIdentity } from "../testing/places.ts";
import { timelineRoutes } from "../timeline/index.ts";
import { enrollmentRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const start = () => startFeaturePlane([siteRoutes, fleetRoutes, robotRoutes, enrollmentRoutes, timelineRoutes]);
const countRow = row({ n: int });
const wholeRow = row({ whole: text });

const enroll = (it: FeaturePlane, body: unknown, remote_address?: string) =>
  it.call<{ data: Enrolled; error: { code: string; message: string } }>("POST", "/agent/enroll", {
    body,
    ...(remote_address === undefined ? {} : { remote_address }),
  });
const getKey = async (it: FeaturePlane, token: string, id: string) =>
  (await it.call<{ data: EnrollmentKey }>("GET", `/api/enrollment-keys/${id}`, { token })).body.data;

test("an enrollment key allows 100 robots and one day by default, and is returned once", TIMEOUT, async () => {
  await using it = await start();
  const { token, token_id } = await it.org();
  const { key, site, fleet } = await makePlace(it, token);
  assert.match(key.key ?? "", /^rf_enroll_[0-9a-f]{64}$/);
  const { key: _, ...shown } = key;
  assert.deepEqual(shown, {
    id: key.id,
    label: null,
    site_id: site.id,
    fleet_id: fleet.id,
    robot_id: null,
    max_uses: 100,
    uses: 0,
    trusted: true,
    expires_at: "2030-01-02T00:00:00.000Z",
    status: "active",
    revoked_at: null,
    created_by: { type: "org_token", id: token_id, name: "admin" },
    created_at: "2030-01-01T00:00:00.000Z",
    updated_at: "2030-01-01T00:00:00.000Z",
  });
  assert.deepEqual(await getKey(it, token, key.id), shown);
  const { items } = (await it.call<{ items: EnrollmentKey[] }>("GET", "/api/enrollment-keys", { token })).body;
  assert.deepEqual(items, [shown]);
  const { whole } = await it.plane.db.one(sql(wholeRow)`select to_jsonb(k)::text as whole from enrollment_key k where org_id is not null`);
  assert.ok(!whole.includes(key.key?.slice(20) ?? "?"));
});

test("accepts enrollment keys with a name, without expiry and without a limit of uses", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { site, fleet } = await makePlace(it, token);
  const body = { site_id: site.id, fleet_id: fleet.id, name: "Line 3", max_uses: 0, expires_in_hours: 0 };
  const { status, headers, body: answer } = await it.call<{ data: NewEnrollmentKey }>("POST", "/api/enrollment-keys", { token, body });
  assert.equal(status, 201);
  assert.equal(headers["location"], `/api/enrollment-keys/${answer.data.id}`);
  assert.deepEqual([answer.data.label, answer.data.expires_at, answer.data.max_uses], ["Line 3", null, 0]);
  await it.clock.advance({ days: 400 });
  assert.equal((await enroll(it, { key: answer.data.key, public_key: newIdentity().public_key })).status, 201);
  const both = await it.call("POST", "/api/enrollment-keys", { token, body: { ...body, label: "x" } });
  assert.equal(both.status, 400);
});

test("returns 400 for a fleet of another site, and 404 for a site or fleet of another org", TIMEOUT, async () => {
  await using it = await start();
  const [mine, other] = [await it.org(), await it.org()];
  const [a, b, outside] = [await makePlace(it, mine.token, "a"), await makePlace(it, mine.token, "b"), await makePlace(it, other.token)];
  const post = (site_id: string, fleet_id: string) =>
    it.call("POST", "/api/enrollment-keys", { token: mine.token, body: { site_id, fleet_id } });
  const mixed = await post(a.site.id, b.fleet.id);
  assert.deepEqual([mixed.status, mixed.body.error.code], [400, "bad_request"]);
  assert.match(mixed.body.error.message, /fleet_id/);
  assert.equal((await post(outside.site.id, a.fleet.id)).status, 404);
  assert.equal((await post(a.site.id, outside.fleet.id)).status, 404);
  assert.equal((await it.call("GET", `/api/enrollment-keys/${outside.key.id}`, { token: mine.token })).status, 404);
  assert.equal((await it.call("POST", `/api/enrollment-keys/${outside.key.id}/revoke`, { token: mine.token })).status, 404);
  assert.equal((await getKey(it, other.token, outside.key.id)).status, "active");
});

test("a replayed creation of an enrollment key does not return the key again", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { site, fleet } = await makePlace(it, token);
  const post = () =>
    it.call<{ data: NewEnrollmentKey }>("POST", "/api/enrollment-keys", {
      token,
      body: { site_id: site.id, fleet_id: fleet.id },
      headers: { "idempotency-key": "k" },
    });
  const [first, replay] = [await post(), await post()];
  assert.deepEqual(
    [replay.status, replay.headers["idempotency-replayed"], replay.headers["location"]],
    [201, "true", first.headers["location"]],
  );
  assert.deepEqual(replay.body.data, { ...first.body.data, key: null });
});

test("a robot that enrolls again with its public key gets the same result without a further use", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org();
  const place = await makePlace(it, token, "one", { max_uses: 1 });
  const body = {
    key: place.key.key,
    public_key: newIdentity().public_key,
    name: "Arm 7",
    labels: { zone: "a" },
    platform: { os: "linux", hostname: "h" },
  };
  const first = await enroll(it, body);
  assert.equal(first.status, 201);
  const { robot_id } = first.body.data;
  assert.deepEqual(first.body.data, { robot_id, org_id, name: "Arm 7" });
  const again = await enroll(it, body);
  assert.deepEqual([again.status, again.body.data], [200, first.body.data]);
  assert.equal((await getKey(it, token, place.key.id)).uses, 1);
  const robot = (await it.call<{ data: Robot }>("GET", `/api/robots/${robot_id}`, { token })).body.data;
  assert.deepEqual(
    [robot.name, robot.labels, robot.platform, robot.fleet_id, robot.site_id, robot.status],
    ["Arm 7", { zone: "a" }, { os: "linux", hostname: "h" }, place.fleet.id, place.site.id, "never_connected"],
  );
  const timeline = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${robot_id}/timeline`, { token })).body.items;
  assert.deepEqual(
    timeline.map(({ kind, actor }) => [kind, actor.type, actor.id]),
    [["robot.enrolled", "robot", robot_id]],
  );
});

test("concurrent enrollments of one robot create one robot and count one use", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { key } = await makePlace(it, token, "one", { max_uses: 1 });
  const body = { key: key.key, public_key: newIdentity().public_key };
  const answers = await Promise.all(Array.from({ length: 20 }, () => enroll(it, body)));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [...Array.from({ length: 19 }, () => 200), 201]);
  assert.equal(new Set(answers.map((answer) => answer.body.data.robot_id)).size, 1);
  assert.equal((await getKey(it, token, key.id)).uses, 1);
});

test("a conflict over one public key does not prevent the other robots of a batch from enrolling", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org();
  const place = await makePlace(it, token);
  const { key } = place;
  const owner = await enrollRobot(it, place);
  const [taken, others] = [newIdentity().public_key, Array.from({ length: 20 }, () => newIdentity().public_key)];
  const lockRow = row({ waiting: bool });
  const change = it.plane.db.transaction(async (tx) => {
    await tx.run(
      sql`update robot_key set public_key = ${Buffer.from(taken, "base64")} where org_id = ${org_id} and robot_id = ${owner.robot_id}`,
    );
    const answers = Promise.all([...others, taken].map((public_key) => enroll(it, { key: key.key, public_key })));
    await until("the enrollment to wait for the public key", async () => {
      const { waiting } = await it.plane.db.one(sql(lockRow)`
        -- across orgs: locks of this test's database
        select exists (select from pg_locks where not granted and locktype = 'transactionid') as waiting`);
      return waiting;
    });
    return { answers };
  });
  const answers = await (await change).answers;
  const known = answers.pop();
  assert.deepEqual([known?.status, known?.body.data.robot_id], [200, owner.robot_id]);
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
  assert.equal(new Set(answers.map(({ body }) => body.data.robot_id)).size, others.length);
  assert.equal((await getKey(it, token, key.id)).uses, 1 + others.length);
});

test("an org whose enrollments wait for a lock does not delay the enrollments of other orgs", TIMEOUT, async () => {
  await using it = await start();
  const [blocked, other] = [await it.org(), await it.org()];
  const places = await Promise.all(["a", "b", "c", "d"].map((name) => makePlace(it, blocked.token, name)));
  const free = await makePlace(it, other.token);
  const enrollments = await it.plane.db.transaction(async (tx) => {
    await tx.many(sql(row({ id: text }))`select id from fleet where org_id = ${blocked.org_id} for update`);
    const waiting = Promise.all(places.map(({ key }) => enroll(it, { key: key.key, public_key: newIdentity().public_key })));
    await enrollRobot(it, free);
    return { waiting };
  });
  assert.deepEqual(
    (await enrollments.waiting).map(({ status }) => status),
    [201, 201, 201, 201],
  );
});

test("of 500 concurrent robots with a key for ten, ten enroll and 490 are refused", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { key } = await makePlace(it, token, "one", { max_uses: 10 });
  const enrollOne = async () => {
    const body = { key: key.key, public_key: newIdentity().public_key };
    // On a slow machine, under this load, a robot may be asked to retry.
    return until("the server to have time", async () => {
      const answer = await enroll(it, body);
      return answer.status !== 503 && answer;
    });
  };
  const answers = await Promise.all(Array.from({ length: 500 }, enrollOne));
  const of = (status: number) => answers.filter((answer) => answer.status === status);
  assert.deepEqual([of(201).length, of(403).length], [10, 490]);
  assert.ok(of(403).every(({ body }) => body.error.message.includes("exhausted")));
  assert.equal((await it.plane.db.one(sql(countRow)`select count(*)::int as n from robot where org_id is not null`)).n, 10);
  const shown = await getKey(it, token, key.id);
  assert.deepEqual([shown.uses, shown.status], [10, "exhausted"]);
});

test("returns 401 for an unknown enrollment key, and 429 after twenty attempts from one address", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { key } = await makePlace(it, token);
  await it.call("POST", `/api/enrollment-keys/${key.id}/revoke`, { token });
  const { public_key } = newIdentity();
  for (let i = 0; i < 40; i += 1) assert.equal((await enroll(it, { key: key.key, public_key }, "127.0.0.1")).status, 403);
  for (let i = 0; i < 20; i += 1) assert.equal((await enroll(it, { key: `rf_enroll_${i}`, public_key }, "127.0.0.1")).status, 401);
  const limited = await enroll(it, { key: "rf_enroll_x", public_key }, "127.0.0.1");
  assert.deepEqual([limited.status, limited.body.error.code], [429, "http_error"]);
  assert.match(String(limited.headers["retry-after"]), /^\d+$/);
  assert.equal((await enroll(it, { key: "rf_enroll_x", public_key }, "127.0.0.2")).status, 401);
});

test("refuses new robots with an expired or revoked key, but not robots that enrolled before", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const place = await makePlace(it, token, "one", { expires_in_hours: 1 });
  const { robot_id, identity } = await enrollRobot(it, place);
  await it.clock.advance({ hours: 1 });
  const expired = await enroll(it, { key: place.key.key, public_key: newIdentity().public_key });
  assert.deepEqual([expired.status, expired.body.error.message], [403, "the enrollment key is expired"]);
  const revoke = () => it.call<{ data: EnrollmentKey }>("POST", `/api/enrollment-keys/${place.key.id}/revoke`, { token });
  const first = await revoke();
  assert.deepEqual([first.status, first.body.data.status, first.body.data.revoked_at], [200, "revoked", "2030-01-01T01:00:00.000Z"]);
  await it.clock.advance({ hours: 1 });
  assert.deepEqual((await revoke()).body.data, first.body.data);
  const revoked = await enroll(it, { key: place.key.key, public_key: newIdentity().public_key });
  assert.match(revoked.body.error.message, /revoked/);
  const again = await enroll(it, { key: place.key.key, public_key: identity.public_key });
  assert.deepEqual([again.status, again.body.data.robot_id], [200, robot_id]);
});

test("refuses a public key that belongs to a decommissioned robot or to another org", TIMEOUT, async () => {
  await using it = await start();
  const [mine, other] = [await it.org(), await it.org()];
  const [place, outside] = [await makePlace(it, mine.token), await makePlace(it, other.token)];
  const { robot_id, identity } = await enrollRobot(it, place);
  assert.equal((await enroll(it, { key: outside.key.key, public_key: identity.public_key })).status, 403);
  await it.call("DELETE", `/api/robots/${robot_id}`, { token: mine.token });
  const back = await enroll(it, { key: place.key.key, public_key: identity.public_key });
  assert.equal(back.status, 403);
  assert.match(back.body.error.message, /decommissioned/);
});

test("a robot without a name is named after its host, or after its id", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { key } = await makePlace(it, token);
  const named = async (platform: unknown) => (await enroll(it, { key: key.key, public_key: newIdentity().public_key, platform })).body.data;
  assert.equal((await named({ hostname: "arm-7.lan" })).name, "arm-7.lan");
  assert.equal((await named({ hostname: " \u0007bad\nhost " })).name, "badhost");
  for (const nothing of [{}, { hostname: "\n" }, undefined]) {
    const { name, robot_id } = await named(nothing);
    assert.equal(name, `robot-${robot_id.slice(-6)}`);
  }
});

test("lists enrollment keys by their current status", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const [active, expired, exhausted, revoked] = [
    await makePlace(it, token, "active"),
    await makePlace(it, token, "expired", { expires_in_hours: 1 }),
    await makePlace(it, token, "exhausted", { max_uses: 1 }),
    await makePlace(it, token, "revoked", { expires_in_hours: 1 }),
  ];
  await enrollRobot(it, exhausted);
  await it.call("POST", `/api/enrollment-keys/${revoked.key.id}/revoke`, { token });
  await it.clock.advance({ hours: 2 });
  for (const [status, { key }] of Object.entries({ active, expired, exhausted, revoked })) {
    const { items } = (await it.call<{ items: EnrollmentKey[] }>("GET", `/api/enrollment-keys?status=${status}`, { token })).body;
    assert.deepEqual(
      items.map((one) => [one.id, one.status]),
      [[key.id, status]],
    );
  }
  const { items } = (await it.call<{ items: EnrollmentKey[] }>("GET", `/api/enrollment-keys?fleet_id=${active.fleet.id}`, { token })).body;
  assert.deepEqual(
    items.map(({ id }) => id),
    [active.key.id],
  );
});

test("returns 400 with the name of the invalid enrollment field", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const { key } = await makePlace(it, token);
  const good = { key: key.key, public_key: newIdentity().public_key };
  for (const [body, field] of [
    [{ ...good, key: undefined }, "key"],
    [{ ...good, public_key: "short" }, "public_key"],
    [{ ...good, public_key: `${"!".repeat(43)}=` }, "public_key"],
    // An uncompressed point of P-256 starts with the byte 4 and lies on the curve.
    [{ ...good, public_key: Buffer.alloc(65, 5).toString("base64") }, "public_key"],
    [{ ...good, public_key: Buffer.alloc(65, 4).toString("base64") }, "public_key is not a point on the curve P-256"],
    [{ ...good, name: "" }, "name"],
    [{ ...good, labels: { "": "x" } }, "labels"],
    [{ ...good, labels: { a: 1 } }, "labels"],
    [{ ...good, platform: { os: "x".repeat(201) } }, "platform"],
    [{ ...good, lables: {} }, "lables"],
  ] as const) {
    const { status, body: answer } = await enroll(it, body);
    assert.equal(status, 400, JSON.stringify(body));
    assert.match(answer.error.message, new RegExp(field));
  }
});
