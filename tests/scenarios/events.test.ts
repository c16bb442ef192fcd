// Separate process: this test measures the memory of its process.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { idSource } from "@roamfleet/clock";
import type { Change } from "@roamfleet/protocol/routes";
import { announce } from "../../packages/server/src/features/events/index.ts";
import { list, sql } from "../../packages/server/src/kernel/sql.ts";
import { sessionHeaders } from "../authorization/ask-route.ts";
import { EventReader } from "../harness/event-reader.ts";
import { ADMIN_TOKEN, type HarnessOrg, startPlane } from "../harness/index.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { checkTime } from "../harness/promise.ts";
import { Http } from "../spec/http.ts";

const LIMIT = { timeout: 300_000 };
const BOUND_MS = 2_000;
const STREAMS_MAX = 4;
const plane = await startPlane({ limits: { event_streams_per_token_max: STREAMS_MAX } });
after(() => plane[Symbol.asyncDispose]());

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
type Options = Parameters<typeof EventReader.open>[2];
const open = (token: string, options: Options = {}) => seenByAllNodes(EventReader.open(plane.url, bearer(token), options));
/** Opens a reader at the first node, because a stream can be resumed only at the node that it was opened at. */
const openAtFirst = (token: string, options: Options = {}) =>
  seenByAllNodes(EventReader.open(plane.nodes[0]?.url ?? "", bearer(token), options));
const shown = ({ kind, change, id }: Change): string => `${kind} ${change} ${id}`;

/** Resolves when all nodes have processed a call, because events of different nodes arrive in any order. */
async function seenByAllNodes<T>(call: Promise<T>): Promise<T> {
  const answer = await call;
  await plane.settle();
  return answer;
}

/** Resolves when each reader has received all earlier changes of the org. */
async function caughtUp(org: HarnessOrg, ...readers: EventReader[]): Promise<void> {
  await plane.settle();
  const namespace = randomUUID();
  await org.api.setConfigSchema({ params: { namespace }, body: { schema: {} } });
  for (const reader of readers) await reader.until("the last change", ({ data }) => data.id === namespace);
}

/** Changes that a reader received, without the marker change of `caughtUp`. */
const changesOf = (reader: EventReader): string[] => reader.changes.filter(({ kind }) => kind !== "config_schema").map(shown);

test("sends one event per change, and only to clients of the same org", LIMIT, async () => {
  const [ours, foreign] = [await plane.org(), await plane.org()];
  using here = await open(ours.admin_token);
  using there = await open(foreign.admin_token);
  assert.equal(here.headers["cache-control"], "no-store");
  assert.equal(here.headers["x-accel-buffering"], "no");
  assert.equal(here.headers["x-service-org-id"], ours.id);
  const site = (await seenByAllNodes(ours.api.createSite({ body: { name: "One" } }))).data.id;
  await seenByAllNodes(ours.api.updateSite({ params: { id: site }, body: { name: "Two" } }));
  await seenByAllNodes(ours.api.updateSite({ params: { id: site }, body: { name: "Two" } }));
  const fleet = (await seenByAllNodes(ours.api.createFleet({ body: { name: "Fleet", site_id: site } }))).data.id;
  await ours.api.deleteFleet({ params: { id: fleet } });
  await caughtUp(ours, here);
  await caughtUp(foreign, there);
  assert.deepEqual(changesOf(here), [`site created ${site}`, `site updated ${site}`, `fleet created ${fleet}`, `fleet removed ${fleet}`]);
  assert.deepEqual(changesOf(there), []);
  assert.ok(here.changes.every((change) => !("places" in change)));
});

test("a client that reconnects receives exactly the missed events, or the event lost", LIMIT, async () => {
  const org = await plane.org();
  const first = await openAtFirst(org.admin_token);
  const before = await org.site();
  await caughtUp(org, first);
  first.close();
  await first.ended;
  const missed = [await seenByAllNodes(org.site()), await seenByAllNodes(org.site()), await seenByAllNodes(org.site())];
  using second = await openAtFirst(org.admin_token, { last_event_id: first.last_event_id });
  await caughtUp(org, second);
  assert.deepEqual(
    changesOf(second),
    missed.map((id) => `site created ${id}`),
  );
  assert.deepEqual(second.heard[0]?.data, { resumed: true });
  assert.ok(!changesOf(second).some((change) => change.includes(before)));
  // Ids of a server or ring buffer that no longer exists, and invalid ids.
  for (const last_event_id of ["feed_0-1", "nonsense", `${first.last_event_id}9999`]) {
    using other = await openAtFirst(org.admin_token, { last_event_id });
    await other.until("that it lost something", ({ event }) => event === "lost");
    assert.deepEqual(other.heard[0]?.data, { resumed: false });
    await caughtUp(org, other);
    assert.deepEqual(changesOf(other), []);
  }
});

test("an event stream contains only events within the role and scope of its token", LIMIT, async () => {
  const org = await plane.org();
  const [one, two] = [await org.fleet(), await org.fleet()];
  const [mover, other] = [await org.enrollRobot({ fleet_id: one }), await org.enrollRobot({ fleet_id: two })];
  using admin = await open(org.admin_token);
  using operator = await open(await org.token({ role: "operator" }));
  using of_one = await open(await org.token({ role: "viewer", scopes: [{ fleet_id: one }] }));
  using of_two = await open(await org.token({ role: "admin", scopes: [{ fleet_id: two }] }));
  const token = (await org.api.createToken({ body: { label: "new", role: "viewer" } })).data.id;
  await seenByAllNodes(org.api.updateRobot({ params: { id: other.id }, body: { name: "renamed" } }));
  await org.api.updateRobot({ params: { id: mover.id }, body: { fleet_id: two } });
  const release = await org.release();
  await caughtUp(org, admin, operator, of_one, of_two);
  assert.deepEqual(admin.of("token").map(shown), [`token created ${token}`]);
  for (const reader of [operator, of_one, of_two]) assert.deepEqual(reader.of("token"), []);
  const robots = (reader: EventReader): Change[] => reader.of("robot").filter(({ change }) => change !== "presence");
  assert.deepEqual(robots(operator).map(shown), [`robot updated ${other.id}`, `robot moved ${mover.id}`]);
  assert.deepEqual(robots(of_one).map(shown), [`robot moved ${mover.id}`]);
  assert.deepEqual(
    robots(of_one).map(({ fleet_id, from_fleet_id }) => [fleet_id, from_fleet_id]),
    [[one, undefined]],
  );
  assert.deepEqual(robots(of_two).map(shown), [`robot updated ${other.id}`, `robot moved ${mover.id}`]);
  assert.deepEqual(
    of_two.of("timeline").map(({ robot_id }) => robot_id),
    [mover.id],
  );
  assert.deepEqual(of_one.of("timeline"), []);
  assert.ok([of_one, of_two].every((reader) => reader.of("release").some(({ id }) => id === release.id)));
});

test("a viewer of one fleet who reconnects receives only the missed events of that fleet", LIMIT, async () => {
  const org = await plane.org();
  const [one, two] = [await org.fleet(), await org.fleet()];
  const token = await org.token({ role: "viewer", scopes: [{ fleet_id: one }] });
  const first = await openAtFirst(token);
  await caughtUp(org, first);
  first.close();
  await first.ended;
  const mine = await org.enrollRobot({ fleet_id: one, online: false });
  await org.enrollRobot({ fleet_id: two, online: false });
  await org.api.updateRobot({ params: { id: mine.id }, body: { name: "renamed" } });
  using second = await openAtFirst(token, { last_event_id: first.last_event_id });
  await caughtUp(org, second);
  assert.deepEqual(second.of("robot").map(shown), [`robot created ${mine.id}`, `robot updated ${mine.id}`]);
  assert.ok(second.of("timeline").every(({ robot_id }) => robot_id === mine.id));
});

test("sends an event for each change of a robot's presence and of a deployment's status", LIMIT, async () => {
  const org = await plane.org();
  using reader = await open(org.admin_token);
  const robot = await org.enrollRobot();
  const release = await org.release();
  const deployment = await org.deploy(release, { robot_id: robot.id });
  await reader.until("the end of the deployment", ({ data }) => data.kind === "deployment" && data.status === "applied");
  await robot.disconnect();
  await reader.until("that the robot is gone", ({ data }) => data.kind === "robot" && data.status === "offline");
  await caughtUp(org, reader);
  const presence = reader.of("robot").filter(({ change }) => change === "presence");
  assert.deepEqual(
    presence.map(({ id, status }) => [id, status]),
    [
      [robot.id, "online"],
      [robot.id, "offline"],
    ],
  );
  const targets = reader.of("target").filter(({ change }) => change === "status");
  assert.ok(targets.every(({ robot_id, deployment_id }) => robot_id === robot.id && deployment_id === deployment.id));
  const statuses = targets.map(({ status }) => status);
  assert.equal(new Set(statuses).size, statuses.length);
  assert.deepEqual([statuses[0], statuses.at(-1)], ["dispatched", "applied"]);
  const own = reader.of("deployment").filter(({ change }) => change === "created" || change === "status");
  assert.deepEqual(
    own.map(({ change, status }) => `${change} ${status}`),
    ["created queued", "status in_progress", "status applied"],
  );
});

test("an event stream ends within two seconds after its token, session, user or org loses access", LIMIT, async (t) => {
  const org = await plane.org();
  const cases: {
    name: string;
    end: (ids: { user_id: string; token_id: string; session: Record<string, string> }) => Promise<unknown>;
  }[] = [
    { name: "the token is revoked", end: ({ token_id }) => org.api.revokeToken({ params: { id: token_id } }) },
    { name: "its user is taken out of the org", end: ({ user_id }) => org.api.deleteUser({ params: { id: user_id } }) },
    {
      name: "its org is suspended",
      end: () => org.client(ADMIN_TOKEN).suspendOrg({ params: { id: org.id } }),
    },
  ];
  for (const { name, end } of cases) {
    const user = (await org.api.createUser({ body: { email: `${randomUUID()}@example.org`, name: "Ada", role: "viewer" } })).data;
    const { id: token_id, token } = (await org.api.createToken({ body: { label: name, role: "viewer", user_id: user.id } })).data;
    const session = (await sessionHeaders(plane, token ?? "")) ?? {};
    using by_token = await open(token ?? "");
    using by_cookie = await EventReader.open(plane.url, { cookie: session.cookie ?? "" });
    const began = performance.now();
    await end({ user_id: user.id, token_id, session });
    for (const [way, reader] of Object.entries({ by_token, by_cookie })) {
      const took = (await reader.ended) - began;
      checkTime(t, `${name}, ${way}: ended`, took, BOUND_MS);
      assert.match(String(reader.heard.at(-1)?.data.code), /^(unauthorized|forbidden)$/, name);
      assert.equal(reader.heard.at(-1)?.event, "end");
    }
    assert.match((await new Http(plane, token ?? "").get("/api/events")).refusal, /^40[13] /);
  }
});

test("a client whose scope changes receives the event lost, and then only events within its new scope", LIMIT, async () => {
  const org = await plane.org();
  const [one, two] = [await org.fleet(), await org.fleet()];
  const robots = [await org.enrollRobot({ fleet_id: one, online: false }), await org.enrollRobot({ fleet_id: two, online: false })];
  const user = (await org.api.createUser({ body: { email: `${randomUUID()}@example.org`, name: "Ada", role: "viewer" } })).data;
  const { token } = (await org.api.createToken({ body: { label: "foreign", role: "viewer", user_id: user.id } })).data;
  using reader = await open(token ?? "");
  await org.api.updateUser({ params: { id: user.id }, body: { scopes: [{ fleet_id: two }] } });
  await reader.until("that it is to read again", ({ event }) => event === "lost");
  for (const { id } of robots) await org.api.updateRobot({ params: { id }, body: { name: randomUUID() } });
  await caughtUp(org, reader);
  assert.deepEqual(
    reader.of("robot").map(({ id }) => id),
    [robots[1]?.id],
  );
});

const COUNTED = { ...LIMIT, skip: oneNodeOnly("each node limits its own streams") };

test("limits the concurrent event streams of a token", COUNTED, async () => {
  const org = await plane.org();
  const readers = [];
  for (let n = 0; n < STREAMS_MAX; n += 1) readers.push(await open(org.admin_token));
  const http = new Http(plane, org.admin_token);
  const refused = await http.get("/api/events");
  assert.match(refused.refusal, /^429 http_error: too many event streams/);
  assert.ok(Number(refused.headers.get("retry-after")) > 0);
  readers.pop()?.close();
  await plane.until("room", async () => (await http.get("/api/events")).status === 200);
  for (const reader of readers) reader.close();
});

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;
function heldBytes(): number {
  gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
const FLOODS = 200;
const GROWTH_BYTES_MAX = 40 * 1024 ** 2;

test("a client that stops reading event streams uses no server memory and receives the event lost", LIMIT, async () => {
  const org = await plane.org();
  const fleet_id = await org.fleet();
  await seedRobots(org, fleet_id, 1_000);
  const release = await org.release();
  const deployment = await org.deploy(release, { fleet_id });
  using stalled = await open(org.admin_token, { stalled: true });
  {
    using reader = await open(org.admin_token);
    await org.api.cancelDeployment({ params: { id: deployment.id } });
    await reader.until("the end", ({ data }) => data.kind === "deployment" && data.status === "cancelled");
    await caughtUp(org, reader);
    const cancelled = reader.of("target").filter(({ status }) => status === "cancelled");
    assert.equal(new Set(cancelled.map(({ id }) => id)).size, 1_000);
    assert.equal(cancelled.length, 1_000);
    assert.ok(!reader.heard.some(({ event }) => event === "lost"));
  }
  const before = heldBytes();
  for (let n = 0; n < FLOODS; n += 1) {
    const changes = Array.from({ length: 1_000 }, (_, i) => {
      const id = `${n}-${i}`;
      return { kind: "target" as const, id, change: "status", robot_id: `rob_${id}`, deployment_id: deployment.id, status: "queued" };
    });
    announce(plane.plane.db.forOrg(org.id), plane.plane, org.id, changes);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await plane.settle();
  const grown = heldBytes() - before;
  assert.ok(grown < GROWTH_BYTES_MAX, `${grown} bytes more are held`);
  // Deliberately not awaited.
  const site = await org.site();
  stalled.resume();
  await stalled.until("that it lost something", ({ event }) => event === "lost");
  await caughtUp(org, stalled);
  assert.ok(stalled.heard.filter(({ event }) => event === "change").length < FLOODS * 1_000);
  assert.ok(site.startsWith("site_"));
});

test("a stopping server ends event streams with a reason, and their clients reconnect", LIMIT, async () => {
  const org = await plane.org();
  using reader = await open(org.admin_token);
  await plane.stop();
  await reader.ended;
  assert.deepEqual([reader.heard.at(-1)?.event, reader.heard.at(-1)?.data.code], ["end", "draining"]);
  assert.equal(reader.retry_ms, 2_000);
  await plane.restart();
  using again = await open(org.admin_token, { last_event_id: reader.last_event_id });
  await again.until("that it lost something", ({ event }) => event === "lost");
});

/** Creates rows of robots that never connect: only their existence matters. */
async function seedRobots(org: HarnessOrg, fleet_id: string, count: number): Promise<void> {
  const { site_id } = (await org.api.getFleet({ params: { id: fleet_id } })).data;
  const id = idSource(plane.clock);
  const now = plane.clock.now();
  const ids = Array.from({ length: count }, () => id("rob"));
  const keys = ids.map(() => randomBytes(32).toString("hex"));
  await plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, labels, public_key, enrollment_key_id, created_at, updated_at)
    select ${org.id}, r.id, 'Robot ' || r.id, ${site_id}, ${fleet_id}, '{}', decode(r.key, 'hex'), 'ekey_none', ${now}, ${now}
    from unnest(${list(ids)}::text[], ${list(keys)}::text[]) as r (id, key)`);
}
