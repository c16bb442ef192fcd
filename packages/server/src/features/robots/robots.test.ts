import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { DeploymentTarget, Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { json, sql } from "../../kernel/sql.ts";
import { enrollmentRoutes } from "../enrollment/index.ts";
import { fleetRoutes } from "../fleets/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { enrollRobot, fakeSession, helloOf, makePlace } from "../testing/places.ts";
import { timelineRoutes } from "../timeline/index.ts";
import type { Session } from "../../link/index.ts";
import { closeRemovedRobots, robotConnected, robotRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const start = (sessions = new Map<string, Session>()) =>
  startFeaturePlane([siteRoutes, fleetRoutes, enrollmentRoutes, robotRoutes, timelineRoutes], { sessions });

type List = { items: Robot[]; next_cursor: string | null };
const list = async (it: FeaturePlane, token: string, query = "") => (await it.call<List>("GET", `/api/robots${query}`, { token })).body;
const names = ({ items }: List) => items.map(({ name }) => name);
const getRobot = async (it: FeaturePlane, token: string, id: string) =>
  (await it.call<{ data: Robot }>("GET", `/api/robots/${id}`, { token })).body.data;
const kinds = async (it: FeaturePlane, token: string, id: string) =>
  (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${id}/timeline`, { token })).body.items.map(({ kind }) => kind);

test("returns a robot that has never connected", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const place = await makePlace(it, token);
  const { robot_id } = await enrollRobot(it, place, { name: "Arm 7" });
  const robot = await getRobot(it, token, robot_id);
  assert.match(robot.public_key_fingerprint, /^SHA256:[A-Za-z0-9+/]{43}$/);
  assert.deepEqual(robot, {
    id: robot_id,
    name: "Arm 7",
    site_id: place.site.id,
    fleet_id: place.fleet.id,
    status: "never_connected",
    last_seen_at: null,
    health: "unknown",
    failing: [],
    held_at: null,
    labels: {},
    agent_version: null,
    platform: null,
    apps: [],
    current_release: null,
    desired_release: null,
    release_state: "unknown",
    config_state: "unknown",
    approval: "approved",
    public_key_fingerprint: robot.public_key_fingerprint,
    public_key_type: "ed25519",
    created_at: "2030-01-01T00:00:00.000Z",
    updated_at: "2030-01-01T00:00:00.000Z",
  });
});

test("finds robots by status, fleet, site, label and part of the name", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org();
  const [a, b] = [await makePlace(it, token, "a"), await makePlace(it, token, "b")];
  const online = await enrollRobot(it, a, { name: "Dock online", labels: { zone: "a:1", kind: "arm" } });
  const offline = await enrollRobot(it, a, { name: "dock offline", labels: { zone: "b" } });
  await enrollRobot(it, b, { name: "Never" });
  const gone = await enrollRobot(it, b, { name: "Gone" });
  await robotConnected(it.plane, fakeSession("sess_1", org_id, helloOf(online.robot_id)));
  await it.plane.db.run(sql`update robot set last_seen_at = ${it.clock.now()} where org_id = ${org_id} and id = ${offline.robot_id}`);
  await it.call("DELETE", `/api/robots/${gone.robot_id}`, { token });
  assert.deepEqual(names(await list(it, token)), ["Never", "dock offline", "Dock online"]);
  for (const [query, found] of [
    ["?status=online", ["Dock online"]],
    ["?status=offline", ["dock offline"]],
    ["?status=never_connected", ["Never"]],
    ["?status=decommissioned", ["Gone"]],
    [`?fleet_id=${a.fleet.id}`, ["dock offline", "Dock online"]],
    [`?site_id=${b.site.id}`, ["Never"]],
    ["?label=zone:a:1", ["Dock online"]],
    ["?label=zone:a", []],
    ["?q=DOCK", ["dock offline", "Dock online"]],
    [`?q=DOCK&status=offline&fleet_id=${a.fleet.id}&label=zone:b`, ["dock offline"]],
  ] as const) {
    assert.deepEqual(names(await list(it, token, query)), found, query);
  }
  for (const query of ["?label=zone", "?status=gone", "?q="])
    assert.equal((await it.call("GET", `/api/robots${query}`, { token })).status, 400, query);
});

test("returns 404 for another org's robots, sites and fleets, in path, filter and body", TIMEOUT, async () => {
  await using it = await start();
  const [mine, other] = [await it.org(), await it.org()];
  const [place, outside] = [await makePlace(it, mine.token), await makePlace(it, other.token)];
  const [robot, foreign] = [await enrollRobot(it, place), await enrollRobot(it, outside)];
  for (const [method, url, body] of [
    ["GET", `/api/robots/${foreign.robot_id}`],
    ["PATCH", `/api/robots/${foreign.robot_id}`, { name: "x" }],
    ["DELETE", `/api/robots/${foreign.robot_id}`],
    ["GET", `/api/robots?fleet_id=${outside.fleet.id}`],
    ["GET", `/api/robots?site_id=${outside.site.id}`],
    ["PATCH", `/api/robots/${robot.robot_id}`, { fleet_id: outside.fleet.id }],
    ["GET", "/api/robots/rob_gone"],
  ] as const) {
    assert.equal((await it.call(method, url, { token: mine.token, body })).status, 404, `${method} ${url}`);
  }
  assert.deepEqual(names(await list(it, mine.token)).length, 1);
  assert.equal((await getRobot(it, other.token, foreign.robot_id)).status, "never_connected");
});

test("pages the robot list by a cursor that is valid only for the same filters", TIMEOUT, async () => {
  await using it = await start();
  const { token } = await it.org();
  const place = await makePlace(it, token);
  for (let i = 0; i < 5; i += 1) await enrollRobot(it, place, { name: `R${i}` });
  const first = await list(it, token, "?limit=2");
  const second = await list(it, token, `?limit=2&cursor=${first.next_cursor}`);
  const third = await list(it, token, `?limit=2&cursor=${second.next_cursor}`);
  assert.deepEqual([first, second, third].map(names), [["R4", "R3"], ["R2", "R1"], ["R0"]]);
  assert.equal(third.next_cursor, null);
  assert.equal((await it.call("GET", `/api/robots?limit=2&q=R&cursor=${first.next_cursor}`, { token })).status, 400);
});

test("PATCH renames a robot, replaces its labels and moves it to another fleet", TIMEOUT, async () => {
  await using it = await start();
  const { token, token_id } = await it.org();
  const [a, b] = [await makePlace(it, token, "a"), await makePlace(it, token, "b")];
  const { robot_id } = await enrollRobot(it, a, { name: "old", labels: { a: "1", b: "2" } });
  await it.clock.advance({ seconds: 1 });
  const patch = (body: unknown) => it.call<{ data: Robot }>("PATCH", `/api/robots/${robot_id}`, { token, body });
  const renamed = (await patch({ name: "new", labels: { c: "3" } })).body.data;
  assert.deepEqual(
    [renamed.name, renamed.labels, renamed.fleet_id, renamed.updated_at],
    ["new", { c: "3" }, a.fleet.id, "2030-01-01T00:00:01.000Z"],
  );
  assert.deepEqual(await kinds(it, token, robot_id), ["robot.enrolled"]);
  const moved = (await patch({ fleet_id: b.fleet.id })).body.data;
  assert.deepEqual([moved.name, moved.fleet_id, moved.site_id], ["new", b.fleet.id, b.site.id]);
  await patch({ fleet_id: b.fleet.id });
  const [entry] = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${robot_id}/timeline`, { token })).body.items;
  assert.equal(entry?.kind, "robot.moved");
  assert.equal(entry.actor.id, token_id);
  assert.deepEqual(entry.data, { from: { site_id: a.site.id, fleet_id: a.fleet.id }, to: { site_id: b.site.id, fleet_id: b.fleet.id } });
  assert.deepEqual(await kinds(it, token, robot_id), ["robot.moved", "robot.enrolled"]);
  assert.equal((await patch({})).status, 200);
  const named = async (label: string) =>
    (await it.call<{ items: Robot[] }>("GET", `/api/robots?label=${label}`, { token })).body.items.length;
  assert.deepEqual([await named("a:1"), await named("c:3")], [0, 1]);
  assert.equal((await patch({ labels: {} })).body.data.labels["c"], undefined);
  assert.equal(await named("c:3"), 0);
});

test("DELETE decommissions a robot, closes its link and cancels its deployment targets", TIMEOUT, async () => {
  const sessions = new Map<string, Session>();
  await using it = await start(sessions);
  const { token, org_id } = await it.org();
  const { robot_id } = await enrollRobot(it, await makePlace(it, token));
  const session = fakeSession("sess_1", org_id, helloOf(robot_id));
  sessions.set(robot_id, session);
  await robotConnected(it.plane, session);
  await putTarget(it, org_id, robot_id);
  const stop = closeRemovedRobots(it.plane);
  const deleted = await it.call<{ data: Robot }>("DELETE", `/api/robots/${robot_id}`, { token });
  assert.deepEqual([deleted.status, deleted.body.data.status], [200, "decommissioned"]);
  assert.deepEqual(await until("the link to be closed", () => session.closed), { code: 4404, reason: "robot removed" });
  stop();
  assert.deepEqual(await it.plane.db.many(sql`select status, reason from deployment_target where org_id = ${org_id}`), [
    { status: "cancelled", reason: "robot_removed" },
  ]);
  assert.deepEqual(await list(it, token), { items: [], next_cursor: null });
  const again = await it.call<{ data: Robot }>("DELETE", `/api/robots/${robot_id}`, { token });
  assert.deepEqual(again.body, deleted.body);
  const recorded = await kinds(it, token, robot_id);
  assert.equal(recorded.filter((kind) => kind === "robot.decommissioned").length, 1);
  assert.equal((await it.call("PATCH", `/api/robots/${robot_id}`, { token, body: { name: "x" } })).status, 409);
});

async function putTarget(it: FeaturePlane, org_id: string, robot_id: string, status: DeploymentTarget["status"] = "queued"): Promise<void> {
  const now = it.clock.now();
  await it.plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, robot_id, status, count_total, count_queued, created_by, created_at, updated_at)
    values (${org_id}, 'dep_1', 'release', 'robot', ${robot_id}, 'queued', 1, 1, ${json({ type: "system", id: null, name: null })}, ${now}, ${now})`);
  await it.plane.db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, created_at, updated_at)
    values (${org_id}, 'dep_1', 'tgt_1', 'release', ${robot_id}, 'main', ${status}, ${now}, ${now})`);
}

test("returns 403 when an operator deletes or a viewer changes a robot", TIMEOUT, async () => {
  await using it = await start();
  const [operator, viewer] = [await it.org({ role: "operator" }), await it.org({ role: "viewer" })];
  const { robot_id } = await enrollRobot(it, await makePlace(it, operator.token));
  assert.equal((await it.call("DELETE", `/api/robots/${robot_id}`, { token: operator.token })).status, 403);
  assert.equal((await it.call("PATCH", `/api/robots/${robot_id}`, { token: viewer.token, body: {} })).status, 403);
});

test("shows the current and desired release of each app, and those of the app main also as fields of the robot", TIMEOUT, async () => {
  await using it = await start();
  const { token, org_id } = await it.org();
  const { robot_id } = await enrollRobot(it, await makePlace(it, token));
  const now = it.clock.now();
  for (const [id, tag] of [
    ["rel_1", "1.0"],
    ["rel_2", "2.0"],
  ] as const) {
    await it.plane.db.run(sql`
      insert into release (org_id, id, tag, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
      values (${org_id}, ${id}, ${tag}, 'file', 'x', 1, 'stored', ${now}, ${now})`);
  }
  await it.plane.db.run(sql`
    insert into robot_app (org_id, robot_id, app, current_release_id, desired_release_id, status, updated_at)
    values (${org_id}, ${robot_id}, 'nav', null, 'rel_1', 'starting', ${now}), (${org_id}, ${robot_id}, 'main', 'rel_1', 'rel_2', 'running', ${now})`);
  await it.plane.db.run(sql`
    insert into robot_config (org_id, robot_id, namespace, version, content, sha256, reported_version, reported_sha256, updated_at)
    values (${org_id}, ${robot_id}, 'default', 2, '{}', 'aa', 2, 'aa', ${now}), (${org_id}, ${robot_id}, 'nav', 2, '{}', 'bb', 2, 'cc', ${now})`);
  const robot = await getRobot(it, token, robot_id);
  assert.deepEqual(robot.apps, [
    { app: "main", current: { id: "rel_1", tag: "1.0" }, desired: { id: "rel_2", tag: "2.0" }, status: "running", release_state: "behind" },
    { app: "nav", current: null, desired: { id: "rel_1", tag: "1.0" }, status: "starting", release_state: "behind" },
  ]);
  assert.deepEqual(
    [robot.current_release?.tag, robot.desired_release?.tag, robot.release_state, robot.config_state],
    ["1.0", "2.0", "behind", "drifted"],
  );
  const config = async (change: ReturnType<typeof sql>) => {
    await it.plane.db.run(sql`update robot_config set ${change} where org_id = ${org_id} and namespace = 'nav'`);
    return (await getRobot(it, token, robot_id)).config_state;
  };
  assert.equal(await config(sql`version = 3`), "pending");
  assert.equal(await config(sql`reported_version = 3, target_id = 'tgt_1'`), "pending");
  assert.equal(await config(sql`reported_sha256 = 'bb'`), "in_sync");
  assert.equal(await config(sql`reported_sha256 = null, reported_version = null, target_id = null`), "pending");
  const release = async (change: ReturnType<typeof sql>) => {
    await it.plane.db.run(sql`update robot_app set ${change} where org_id = ${org_id} and app = 'main'`);
    return (await getRobot(it, token, robot_id)).apps.find(({ app }) => app === "main")?.release_state;
  };
  assert.equal(await release(sql`failed_release_id = 'rel_2'`), "failed");
  assert.equal((await getRobot(it, token, robot_id)).release_state, "failed");
  assert.equal(await release(sql`target_id = 'tgt_1'`), "behind");
  assert.equal(await release(sql`target_id = null, failed_release_id = null, current_release_id = 'rel_2'`), "current");
  assert.equal(await release(sql`desired_release_id = null`), "current");
  assert.equal(await release(sql`current_release_id = null`), "unknown");
  await it.plane.db.run(sql`delete from robot_config where org_id = ${org_id}`);
  assert.equal((await getRobot(it, token, robot_id)).config_state, "unknown");
});
