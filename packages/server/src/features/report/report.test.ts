import assert from "node:assert/strict";
import { test } from "node:test";
import type { Role } from "@roamfleet/protocol";
import type { Report } from "@roamfleet/protocol/routes";
import { SYSTEM } from "../../kernel/caller.ts";
import { json, list, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot, type Seeded } from "../testing/seed-robot.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { createCredential } from "../tokens/index.ts";
import { reportRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };

async function start() {
  const rig = await startFeaturePlane([reportRoutes]);
  const { plane, clock } = rig;
  const { org_id, token } = await rig.org({ role: "admin" });
  const here = await seedRobot(plane, org_id);
  const there = await seedRobot(plane, org_id);
  const tokenOf = async (role: Role, ...scopes: { site_id?: string; fleet_id?: string }[]) =>
    (await createCredential(plane.db, plane, { kind: "org", org_id, role, label: "limited", scopes })).secret;
  const deploy = async (
    place: Seeded,
    status: string,
    times: { started_at?: Date; finished_at?: Date; reason?: string; kind?: string } = {},
  ) => {
    const id = plane.id(times.kind === "config" ? "cfd" : "dep");
    const now = clock.now();
    await plane.db.run(sql`
      insert into deployment (org_id, id, kind, target_kind, fleet_id, namespace, status, reason, created_by, started_at, finished_at, created_at, updated_at)
      values (${org_id}, ${id}, ${times.kind ?? "release"}, 'fleet', ${place.fleet_id}, ${times.kind === "config" ? "nav" : null}, ${status}, ${times.reason ?? null},
        ${json(SYSTEM)}, ${times.started_at ?? null}, ${times.finished_at ?? null}, ${now}, ${now})`);
    return id;
  };
  const audit = (action: string, object_id: string, error: string | null = null) =>
    plane.db.run(sql`
      insert into audit_entry (org_id, id, at, actor, action, method, path, object_id, error, ip, request_id)
      values (${org_id}, ${plane.id("aud")}, ${clock.now()}, ${json(SYSTEM)}, ${action}, 'POST', '/', ${object_id}, ${error}, '', '')`);
  const read = async (by = token, query = "") => {
    const { status, body } = await rig.call<{ data: Report }>("GET", `/api/report${query}`, { token: by });
    assert.equal(status, 200, JSON.stringify(body));
    return body.data;
  };
  return {
    rig,
    plane,
    clock,
    org_id,
    token,
    here,
    there,
    tokenOf,
    deploy,
    audit,
    read,
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

const ids = ({ items }: { items: readonly { id: string }[] }): string[] => items.map(({ id }) => id);

test("reports deployments that started, finished, failed or are unfinished", TIMEOUT, async () => {
  await using it = await start();
  const { here, there, deploy, clock, plane, org_id } = it;
  const before = clock.now();
  const over = await deploy(here, "applied", { started_at: before, finished_at: before });
  const long = await deploy(here, "applied", { started_at: before });
  await clock.advance({ hours: 9 });
  const now = clock.now();
  const failed = await deploy(there, "failed", { started_at: now, finished_at: now, reason: "threshold_exceeded" });
  const config = await deploy(here, "in_progress", { started_at: now, kind: "config" });
  const waiting = await deploy(here, "in_progress", { started_at: now });
  await deploy(here, "rolled_back", { started_at: before, finished_at: before, reason: "rollback_requested" });
  await plane.db.run(sql`update deployment set finished_at = ${now} where org_id = ${org_id} and id = ${long}`);
  await plane.db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, waiting_for, created_at, updated_at)
    values (${org_id}, ${waiting}, 'tgt_1', 'release', ${here.robot_id}, 'main', 'queued', 'gate', ${now}, ${now})`);
  // Deployments of robots that follow their fleet are left out: their failures are among the robots.
  await plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, robot_id, status, created_by, started_at, created_at, updated_at)
    values (${org_id}, ${plane.id("dep")}, 'release', 'robot', ${here.robot_id}, 'queued', ${json(SYSTEM)}, ${now}, ${now}, ${now})`);

  const { changed, broken, open } = await it.read();
  assert.deepEqual(ids(changed.started_deployments).toSorted(), [failed, config, waiting].toSorted());
  assert.deepEqual(ids(changed.finished_deployments).toSorted(), [long, failed].toSorted());
  assert.deepEqual(ids(broken.deployments), [failed]);
  assert.deepEqual(
    new Map(open.deployments.items.map(({ id, name, waiting_gate }) => [id, [name, waiting_gate]])),
    new Map([
      [config, ["nav", false]],
      [waiting, ["all namespaces", true]],
    ]),
  );
  assert.equal(open.deployments.count, 2);
  assert.equal(broken.deployments.items[0]?.target_name, there.fleet_id);
  const limited = await it.read(await it.tokenOf("operator", { fleet_id: there.fleet_id }));
  assert.deepEqual([ids(limited.changed.started_deployments), ids(limited.open.deployments)], [[failed], []]);
  assert.ok(ids((await it.read(it.token, `?since=${before.toISOString()}`)).changed.finished_deployments).includes(over));
});

test("reports robots in groups: 30 robots of a site that went offline are one line", TIMEOUT, async () => {
  await using it = await start();
  const { here, there, clock, plane, org_id } = it;
  const robots = await Promise.all(Array.from({ length: 29 }, () => seedRobot(plane, org_id, here)));
  const record = (robot_id: string, kind: string, data: Record<string, string> = {}) => ({
    org_id,
    robot_id,
    kind,
    actor: SYSTEM,
    summary: kind,
    data,
  });
  await recordTimelineMany(plane.db, plane, [record(there.robot_id, "robot.disconnected")]);
  await clock.advance({ hours: 9 });
  const now = clock.now();
  const all = [here, ...robots];
  await recordTimelineMany(
    plane.db,
    plane,
    [...all, ...all].map(({ robot_id }) => record(robot_id, "robot.disconnected")),
  );
  await plane.db.run(
    sql`update robot set last_seen_at = ${now}, node_id = case when id = ${here.robot_id} then 'node_a' end where org_id = ${org_id} and site_id = ${here.site_id}`,
  );
  await recordTimelineMany(plane.db, plane, [
    ...robots.slice(0, 3).map(({ robot_id }) => record(robot_id, "deployment.failed", { deployment_id: "dep_1", reason: "crash_loop" })),
    record(robots[3]?.robot_id ?? "", "deployment.rolled_back", { deployment_id: "dep_1", reason: "health_check_failed" }),
    record(robots[4]?.robot_id ?? "", "deployment.rolled_back", { deployment_id: "dep_1", reason: "rollback_requested" }),
    record(there.robot_id, "config.failed", { deployment_id: "cfd_1" }),
  ]);
  await plane.db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
    values (${org_id}, ${there.robot_id}, ${now}, '{}', 'failing', ${json(["lidar: no scan", "disk: full"])})`);

  const short = (part: Report["open"]["robots"]) =>
    part.items
      .map(({ kind, site_id, deployment_id, robot_count, offline_count, summary }) => [
        kind,
        site_id,
        deployment_id,
        robot_count,
        offline_count,
        summary,
      ])
      .toSorted();
  const { broken, open } = await it.read();
  assert.deepEqual(short(broken.robots), [
    ["config_failed", there.site_id, "cfd_1", 1, 1, `${there.robot_id} at ${there.site_id}: config.failed`],
    ["install_failed", here.site_id, "dep_1", 4, 4, `4 robots at ${here.site_id}: deployment.rolled_back`],
    ["went_offline", here.site_id, null, 30, 29, `30 robots at ${here.site_id} went offline, 29 still are`],
  ]);
  assert.deepEqual(short(open.robots), [
    ["failing", there.site_id, null, 1, 1, `${there.robot_id} at ${there.site_id} is unhealthy: lidar: no scan, disk: full`],
    ["offline", here.site_id, null, 29, 29, `29 robots at ${here.site_id} are offline`],
  ]);
  assert.equal(broken.robots.items[0]?.site_name, broken.robots.items[0]?.site_id);
  const limited = await it.read(await it.tokenOf("viewer", { site_id: there.site_id }));
  assert.deepEqual(
    [short(limited.broken.robots), limited.broken.robots.count],
    [[["config_failed", there.site_id, "cfd_1", 1, 1, `${there.robot_id} at ${there.site_id}: config.failed`]], 1],
  );
  assert.deepEqual(short(limited.open.robots).length, 1);
});

test("reports incidents that were raised in the period, and those that are unresolved", TIMEOUT, async () => {
  await using it = await start();
  const { here, there, clock, plane, org_id } = it;
  const incident = async (place: Seeded, status: string, fleet_id: string | null = null) => {
    const id = plane.id("inc");
    const now = clock.now();
    await plane.db.run(sql`
      insert into incident (org_id, id, rule_id, title, severity, group_id, site_id, fleet_id, status, member_count, active_count, raised_at, joined_at,
        resolved_at, created_at, updated_at)
      values (${org_id}, ${id}, 'alr_1', 'Robot offline', 'critical', ${place.site_id}, ${place.site_id}, ${fleet_id}, ${status}, 1, 1, ${now}, ${now},
        ${status === "resolved" ? now : null}, ${now}, ${now})`);
    return id;
  };
  const [old_open, old_resolved, reopened] = [
    await incident(here, "open"),
    await incident(here, "resolved"),
    await incident(here, "resolved"),
  ];
  await clock.advance({ hours: 9 });
  const [mine, resolved] = [await incident(there, "acknowledged", there.fleet_id), await incident(here, "resolved")];
  await plane.db.run(
    sql`update incident set raised_at = ${clock.now()}, resolved_at = ${clock.now()} where org_id = ${org_id} and id = ${reopened}`,
  );
  const { broken, open } = await it.read();
  assert.deepEqual(ids(broken.incidents).toSorted(), [mine, resolved, reopened].toSorted());
  assert.deepEqual(ids(open.incidents).toSorted(), [old_open, mine].toSorted());
  const limited = await it.read(await it.tokenOf("viewer", { fleet_id: there.fleet_id }));
  assert.deepEqual([ids(limited.broken.incidents), ids(limited.open.incidents)], [[mine], [mine]]);
  assert.ok(!ids(broken.incidents).includes(old_resolved));
});

test("reports changes of people only to admins of the whole org, and configs within the caller's scope", TIMEOUT, async () => {
  await using it = await start();
  const { here, there, clock, plane, org_id, audit } = it;
  const config = async (scope: string, scope_id: string) => {
    const id = plane.id("cfg");
    await plane.db.run(sql`
      insert into config_entry (org_id, id, namespace, key, scope, scope_id, value, version, created_at, updated_at)
      values (${org_id}, ${id}, 'default', ${`speed of ${scope}`}, ${scope}, ${scope_id}, '1', 1, ${clock.now()}, ${clock.now()})`);
    return id;
  };
  const [of_org, of_site, of_robot] = [await config("org", ""), await config("site", here.site_id), await config("robot", there.robot_id)];
  await audit("createUser", "usr_old");
  await clock.advance({ hours: 9 });
  for (const id of [of_org, of_site, of_robot]) await audit("setConfig", id);
  await audit("setConfig", of_org, "forbidden");
  await audit("createUser", "usr_1");
  await audit("deleteRelease", "rel_1");
  await audit("createRelease", "rel_2");
  await audit("createSite", here.site_id);
  const changes = async (by?: string) => {
    const { releases, configs, people } = (await it.read(by)).changed;
    const names = (part: typeof releases | null) => part?.items.map(({ summary }) => summary).toSorted();
    return { releases: names(releases), configs: names(configs), people: names(people) };
  };
  const configs = ["Config speed of org set", "Config speed of robot set", "Config speed of site set"];
  assert.deepEqual(await changes(), {
    releases: ["Release rel_1 removed", "Release rel_2 created"],
    configs,
    people: ["User usr_1 added"],
  });
  assert.deepEqual(await changes(await it.tokenOf("operator")), { releases: ["Release rel_2 created"], configs, people: undefined });
  assert.deepEqual(await changes(await it.tokenOf("admin", { fleet_id: there.fleet_id })), {
    releases: ["Release rel_2 created"],
    configs: ["Config speed of org set", "Config speed of robot set"],
    people: undefined,
  });
});

test("bounds a report in time and rows, and shows nothing of other orgs", TIMEOUT, async () => {
  await using it = await start();
  const { here, clock, deploy } = it;
  for (let made = 0; made < 25; made += 1) await deploy(here, "in_progress", { started_at: clock.now() });
  const { open, since, until } = await it.read();
  assert.deepEqual([open.deployments.count, open.deployments.items.length, open.deployments.truncated], [25, 20, false]);
  assert.deepEqual([since, until], ["2029-12-31T16:00:00.000Z", "2030-01-01T00:00:00.000Z"]);
  assert.equal((await it.read(it.token, "?since=2029-12-24T23:59:00Z")).since, "2029-12-24T23:59:00.000Z");
  const refused = await it.rig.call("GET", "/api/report?since=2029-12-01T00:00:00Z", { token: it.token });
  assert.deepEqual([refused.status, refused.body.error.code], [400, "bad_request"]);
  assert.equal((await it.read((await it.rig.org()).token)).open.deployments.count, 0);
});

test("reports the end of a deployment that is older than the newest 1,000", TIMEOUT, async () => {
  await using it = await start();
  const { here, deploy, clock, plane, org_id } = it;
  const old = await deploy(here, "in_progress", { started_at: clock.now() });
  const newer = Array.from({ length: 1_001 }, () => plane.id("dep"));
  await plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, fleet_id, status, created_by, started_at, finished_at, created_at, updated_at)
    select org_id, n, kind, target_kind, fleet_id, 'applied', created_by, started_at, started_at, created_at, updated_at
    from deployment cross join unnest(${list(newer)}::text[]) n where org_id = ${org_id} and id = ${old}`);
  await clock.advance({ hours: 9 });
  await plane.db.run(sql`update deployment set status = 'failed', finished_at = ${clock.now()} where org_id = ${org_id} and id = ${old}`);
  const { changed, broken } = await it.read();
  assert.deepEqual([ids(changed.finished_deployments), ids(broken.deployments)], [[old], [old]]);
  assert.equal(changed.finished_deployments.truncated, false);
});
