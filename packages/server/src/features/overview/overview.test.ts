import assert from "node:assert/strict";
import { test } from "node:test";
import type { FleetOverview, Overview, RobotTimelineEntry } from "@roamfleet/protocol/routes";
import { SYSTEM } from "../../kernel/caller.ts";
import { json, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { recordTimeline, timelineRoutes } from "../timeline/index.ts";
import { createCredential } from "../tokens/index.ts";
import { overviewRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };

async function start() {
  const rig = await startFeaturePlane([overviewRoutes, timelineRoutes]);
  const { plane } = rig;
  const { org_id, token } = await rig.org({ role: "viewer" });
  const here = await seedRobot(plane, org_id);
  const also = await seedRobot(plane, org_id, here);
  const there = await seedRobot(plane, org_id);
  const gone = await seedRobot(plane, org_id, here);
  const scoped = await createCredential(plane.db, plane, {
    kind: "org",
    org_id,
    role: "viewer",
    label: "here",
    scopes: [{ fleet_id: here.fleet_id }],
  });
  return {
    rig,
    plane,
    org_id,
    token,
    scoped: scoped.secret,
    here,
    also,
    there,
    gone,
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

test("counts visible robots by state, and deployments that are open or failed in the last week", TIMEOUT, async () => {
  await using it = await start();
  const { plane, org_id, here, also, there, gone } = it;
  const now = it.rig.clock.now();
  const set = (id: string, state: string, online: boolean) =>
    plane.db.run(sql`
      update robot set last_seen_at = ${now}, connected_at = ${now}, node_id = ${online ? "node_a" : null}, held_at = ${state === "held" ? now : null},
        decommissioned_at = ${state === "gone" ? now : null} where org_id = ${org_id} and id = ${id}`);
  await set(here.robot_id, "", true);
  await set(there.robot_id, "held", false);
  await set(gone.robot_id, "gone", false);
  for (const { robot_id } of [here, there, gone]) {
    await plane.db.run(sql`
      insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
      values (${org_id}, ${robot_id}, ${now}, '{}', 'failing', ${json(["memory: 99% used"])})`);
    await plane.db.run(sql`
      insert into robot_app (org_id, robot_id, app, current_release_id, desired_release_id, failed_release_id, updated_at)
      values (${org_id}, ${robot_id}, 'main', 'rel_1', 'rel_2', ${robot_id === there.robot_id ? "rel_2" : null}, ${now})`);
    await plane.db.run(sql`
      insert into robot_config (org_id, robot_id, namespace, version, content, sha256, reported_version, reported_sha256, updated_at)
      select ${org_id}, ${robot_id}, n, 1, '{}', 'a', 1, 'b', ${now} from unnest(array['one', 'two']) as n`);
  }
  const deploy = (id: string, kind: string, status: string, fleet_id: string) =>
    plane.db.run(sql`
      insert into deployment (org_id, id, kind, target_kind, fleet_id, status, wave_count, created_by, finished_at, created_at, updated_at)
      values (${org_id}, ${id}, ${kind}, 'fleet', ${fleet_id}, ${status}, 2, '{}', ${["applied", "failed"].includes(status) ? now : null}, ${now}, ${now})`);
  await deploy("dep_1", "release", "in_progress", here.fleet_id);
  await deploy("dep_2", "release", "in_progress", there.fleet_id);
  await deploy("dep_3", "release", "scheduled", here.fleet_id);
  await deploy("dep_4", "release", "applied", here.fleet_id);
  await deploy("dep_5", "config", "in_progress", here.fleet_id);
  await deploy("dep_6", "release", "failed", here.fleet_id);
  await deploy("dep_10", "release", "queued", there.fleet_id);
  await deploy("dep_11", "config", "paused", here.fleet_id);
  const week_ago = new Date(now.getTime() - 8 * 86_400_000);
  await plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, robot_id, status, created_by, finished_at, created_at, updated_at) values
      (${org_id}, 'dep_7', 'release', 'robot', ${here.robot_id}, 'paused', '{"type":"user"}', null, ${now}, ${now}),
      (${org_id}, 'dep_8', 'release', 'robot', ${here.robot_id}, 'queued', '{"type":"system"}', null, ${now}, ${now}),
      (${org_id}, 'dep_9', 'release', 'robot', ${here.robot_id}, 'failed', '{"type":"user"}', ${now}, ${week_ago}, ${now})`);
  await plane.db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, waiting_for, created_at, updated_at)
    values (${org_id}, 'dep_2', 'tgt_1', 'release', ${there.robot_id}, 'main', 'queued', 'gate', ${now}, ${now}),
      (${org_id}, 'dep_5', 'tgt_2', 'config', ${here.robot_id}, 'nav', 'queued', 'gate', ${now}, ${now})`);

  const read = async (token: string) => (await it.rig.call<{ data: Overview }>("GET", "/api/overview", { token })).body.data;
  const all = await read(it.token);
  assert.deepEqual(all.robots, {
    total: 3,
    online: 1,
    offline: 1,
    never_connected: 1,
    unhealthy: 2,
    behind: 1,
    failed: 1,
    drifted: 2,
    held: 1,
    pending: 0,
    lost: 1,
    last_lost_at: now.toISOString(),
  });
  const failed_since = new Date(now.getTime() - 7 * 86_400_000).toISOString();
  const { deployments } = all;
  assert.deepEqual(deployments, {
    scheduled: 1,
    queued: 1,
    in_progress: 2,
    paused: 1,
    waiting_gate: 1,
    failed: 1,
    failed_since,
    following: 1,
  });
  assert.deepEqual(all.config_deployments, { in_progress: 1, paused: 1, waiting_gate: 1 });
  assert.deepEqual(
    all.unhealthy_robots.map(({ id, failing }) => [id, failing]),
    [there, here].map(({ robot_id }) => [robot_id, ["memory: 99% used"]]),
  );
  const part = await read(it.scoped);
  assert.deepEqual(part.robots, {
    total: 2,
    online: 1,
    offline: 0,
    never_connected: 1,
    unhealthy: 1,
    behind: 1,
    failed: 0,
    drifted: 1,
    held: 0,
    pending: 0,
    lost: 0,
    last_lost_at: null,
  });
  assert.deepEqual(part.deployments, { ...deployments, queued: 0, in_progress: 1, waiting_gate: 0 });
  assert.deepEqual(
    part.unhealthy_robots.map(({ id }) => id),
    [here.robot_id],
  );
  assert.equal((await read((await it.rig.org()).token)).robots.total, 0);
  assert.ok(also.robot_id);
});

test("returns the timeline of all visible robots newest first, by kind, robot, fleet and time", TIMEOUT, async () => {
  await using it = await start();
  const { plane, org_id, here, also, there } = it;
  for (const [i, { robot_id }] of [here, there, also, here, there].entries()) {
    await recordTimeline(plane.db, plane, { org_id, robot_id, kind: i === 4 ? "b.done" : "a.done", actor: SYSTEM, summary: String(i) });
    await it.rig.clock.advance({ minutes: 1 });
  }
  type Page = { items: RobotTimelineEntry[]; next_cursor: string | null };
  const get = async (query: string, token = it.token) => (await it.rig.call<Page>("GET", `/api/timeline?${query}`, { token })).body;
  const summaries = async (query: string, token = it.token) => (await get(query, token)).items.map(({ summary }) => summary).join("");
  assert.equal(await summaries(""), "43210");
  assert.equal(await summaries("kind=a.done"), "3210");
  assert.equal(await summaries("kind=c.done"), "");
  assert.equal(await summaries(`robot_id=${here.robot_id}`), "30");
  assert.equal(await summaries(`fleet_id=${here.fleet_id}`), "320");
  assert.equal(await summaries(`site_id=${here.site_id}`), "320");
  assert.equal(await summaries(`site_id=${there.site_id}`), "41");
  assert.equal(await summaries(`fleet_id=${here.fleet_id}&kind=a.done&since=2030-01-01T00:01:00Z`), "32");
  assert.equal(await summaries("since=2030-01-01T00:01:00Z&until=2030-01-01T00:03:00Z"), "21");
  assert.equal(await summaries("", it.scoped), "320");
  const first = await get("limit=2");
  assert.deepEqual([first.items[0]?.robot_name, first.items[0]?.robot_id], [there.robot_id, there.robot_id]);
  assert.equal(await summaries(`limit=2&cursor=${first.next_cursor}`), "21");
  const scoped_first = await get("limit=2", it.scoped);
  assert.equal(await summaries(`limit=2&cursor=${scoped_first.next_cursor}`, it.scoped), "0");
  assert.equal((await it.rig.call("GET", `/api/timeline?robot_id=${there.robot_id}`, { token: it.scoped })).status, 404);
  assert.equal((await it.rig.call("GET", "/api/timeline?fleet_id=fleet_none", { token: it.token })).status, 404);
  assert.equal((await it.rig.call("GET", "/api/timeline?site_id=site_none", { token: it.token })).status, 404);
});

test("returns the state, releases and newest deployment of each visible fleet, those with problems first", TIMEOUT, async () => {
  await using it = await start();
  const { plane, org_id, here, also, there, gone } = it;
  const now = it.rig.clock.now();
  await plane.db.run(sql`update robot set decommissioned_at = ${now} where org_id = ${org_id} and id = ${gone.robot_id}`);
  await plane.db.run(sql`update robot set last_seen_at = ${now}, node_id = 'node_a' where org_id = ${org_id} and id = ${here.robot_id}`);
  await plane.db.run(sql`update robot set last_seen_at = ${now} where org_id = ${org_id} and id = ${there.robot_id}`);
  await plane.db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot, state) values
      (${org_id}, ${there.robot_id}, ${now}, '{}', 'failing'), (${org_id}, ${here.robot_id}, ${now}, '{}', 'ok')`);
  await plane.db.run(sql`
    insert into release (org_id, id, tag, app, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
    values (${org_id}, 'rel_1', '1.0', 'nav', 'file', 'a', 1, 'stored', ${now}, ${now})`);
  const runs = (robot_id: string, app: string, release_id: string) =>
    plane.db.run(sql`
      insert into robot_app (org_id, robot_id, app, current_release_id, updated_at) values (${org_id}, ${robot_id}, ${app}, ${release_id}, ${now})`);
  await runs(here.robot_id, "nav", "rel_1");
  await runs(also.robot_id, "nav", "rel_gone");
  await runs(also.robot_id, "arm", "rel_1");
  await runs(gone.robot_id, "nav", "rel_1");
  for (const [id, kind] of [
    ["dep_1", "release"],
    ["dep_2", "config"],
  ] as const)
    await plane.db.run(sql`
      insert into deployment (org_id, id, kind, target_kind, fleet_id, status, created_by, created_at, updated_at)
      values (${org_id}, ${id}, ${kind}, 'fleet', ${here.fleet_id}, 'in_progress', '{}', ${now}, ${now})`);
  const get = (token: string, query = "") => it.rig.call<{ data: FleetOverview }>("GET", `/api/overview/fleets${query}`, { token });
  const read = async (token: string, query = "") => (await get(token, query)).body.data;
  const all = await read(it.token);
  assert.equal(all.fleet_count, 2);
  assert.deepEqual(
    all.fleets.map(({ fleet_id }) => fleet_id),
    [there.fleet_id, here.fleet_id],
  );
  const { fleet_name: _, site_name: __, ...first } = all.fleets[0] as FleetOverview["fleets"][number];
  assert.deepEqual(first, {
    fleet_id: there.fleet_id,
    site_id: there.site_id,
    total: 1,
    online: 0,
    never_connected: 0,
    unhealthy: 1,
    last_lost_at: now.toISOString(),
    app: null,
    versions: [],
    newest_deployment: null,
  });
  const second = all.fleets[1] as FleetOverview["fleets"][number];
  assert.deepEqual([second.total, second.online, second.never_connected, second.unhealthy], [2, 1, 1, 0]);
  assert.equal(second.app, "nav");
  assert.deepEqual(
    second.versions.map(({ tag, count }) => [tag, count]),
    [
      ["", 1],
      ["1.0", 1],
    ],
  );
  assert.deepEqual(second.newest_deployment, {
    id: "dep_2",
    kind: "config",
    status: "in_progress",
    awaiting_promotion: false,
    created_at: now.toISOString(),
  });
  const apps = [
    {
      app: "nav",
      total: 2,
      versions: [
        { release_id: "rel_gone", tag: "", count: 1 },
        { release_id: "rel_1", tag: "1.0", count: 1 },
      ],
    },
    { app: "arm", total: 1, versions: [{ release_id: "rel_1", tag: "1.0", count: 1 }] },
  ];
  assert.deepEqual(all.apps, apps);
  assert.deepEqual(await read(it.scoped), { fleet_count: 1, fleets: [second], apps });
  assert.deepEqual(await read(it.token, `?site_id=${here.site_id}`), { fleet_count: 1, fleets: [second], apps });
  assert.deepEqual(await read(it.token, `?fleet_id=${there.fleet_id}`), { fleet_count: 1, fleets: [all.fleets[0]], apps: [] });
  assert.equal((await read(it.token, `?site_id=${here.site_id}&fleet_id=${there.fleet_id}`)).fleet_count, 0);
  assert.equal((await get(it.token, "?site_id=site_none")).status, 404);
  assert.equal((await get(it.scoped, `?fleet_id=${there.fleet_id}`)).status, 404);
  assert.deepEqual(await read((await it.rig.org()).token), { fleet_count: 0, fleets: [], apps: [] });
});
