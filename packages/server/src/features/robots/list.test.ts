import assert from "node:assert/strict";
import { test } from "node:test";
import type { Robot } from "@roamfleet/protocol/routes";
import { json, sql } from "../../kernel/sql.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { robotRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type Page = { items: Robot[]; next_cursor: string | null };

interface Traits {
  labels?: Record<string, string>;
  health?: { state: "ok" | "failing"; failing?: string[] };
  /** The current, desired and failed release of the app main. */
  main?: { current?: string; desired?: string; failed?: string; target?: string };
  camera?: Traits["main"];
  configs?: ("in_sync" | "pending" | "drifted")[];
  online?: boolean;
  agent?: string;
}

/** Inserts named robots in one fleet, oldest first. */
async function robotsLike(rig: FeaturePlane, org_id: string, traits: Record<string, Traits>) {
  const { plane, clock } = rig;
  const now = clock.now();
  const place = await seedRobot(plane, org_id);
  await plane.db.run(sql`update robot set name = 'aside', decommissioned_at = ${now} where org_id = ${org_id}`);
  const ids: Record<string, string> = {};
  for (const id of ["rel_1", "rel_2", "rel_cam"])
    await plane.db.run(sql`
      insert into release (org_id, id, tag, app, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
      values (${org_id}, ${id}, ${`v ${id}`}, ${id === "rel_cam" ? "camera" : "main"}, 'file', 'x', 1, 'stored', ${now}, ${now})`);
  for (const [name, of] of Object.entries(traits)) {
    const { robot_id } = await seedRobot(plane, org_id, place);
    ids[name] = robot_id;
    await plane.db.run(sql`
      update robot set name = ${name}, labels = ${json(of.labels ?? {})}, node_id = ${of.online === true ? "node_a" : null},
        agent_version = ${of.agent ?? null}, last_seen_at = ${of.online === undefined ? null : now}, connected_at = ${of.online === undefined ? null : now}
      where org_id = ${org_id} and id = ${robot_id}`);
    if (of.health !== undefined)
      await plane.db.run(sql`
        insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
        values (${org_id}, ${robot_id}, ${now}, '{}', ${of.health.state}, ${json(of.health.failing ?? [])})`);
    const apps = {
      ...(of.main === undefined ? {} : { main: of.main }),
      ...(of.camera === undefined ? {} : { camera: of.camera }),
    };
    for (const [app, runs] of Object.entries<NonNullable<Traits["main"]>>(apps))
      await plane.db.run(sql`
        insert into robot_app (org_id, robot_id, app, current_release_id, desired_release_id, failed_release_id, target_id, updated_at)
        values (${org_id}, ${robot_id}, ${app}, ${runs.current ?? null}, ${runs.desired ?? null}, ${runs.failed ?? null}, ${runs.target ?? null}, ${now})`);
    for (const [i, state] of (of.configs ?? []).entries())
      await plane.db.run(sql`
        insert into robot_config (org_id, robot_id, namespace, version, content, sha256, reported_version, reported_sha256, updated_at)
        values (${org_id}, ${robot_id}, ${`n${i}`}, 2, '{}', 'a', ${state === "pending" ? 1 : 2}, ${state === "in_sync" ? "a" : "b"}, ${now})`);
  }
  return { ...place, ids };
}

const started = async () => {
  const rig = await startFeaturePlane([robotRoutes]);
  const { org_id, token } = await rig.org({ role: "viewer" });
  const list = async (query: string) => (await rig.call<Page>("GET", `/api/robots?${query}`, { token })).body;
  const names = async (query: string) => (await list(query)).items.map(({ name }) => name);
  return { rig, org_id, token, list, names, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
};

test("finds robots by release, release state, config state, health and several labels", TIMEOUT, async () => {
  await using it = await started();
  const { fleet_id } = await robotsLike(it.rig, it.org_id, {
    current: {
      main: { current: "rel_1", desired: "rel_1" },
      camera: { current: "rel_cam" },
      labels: { zone: "a", rack: "1" },
      online: true,
    },
    behind: { main: { current: "rel_1", desired: "rel_2" }, configs: ["in_sync", "drifted", "pending"], online: false },
    failed: { main: { current: "rel_1", desired: "rel_2", failed: "rel_2" }, configs: ["pending", "in_sync"] },
    trying: { main: { current: "rel_1", desired: "rel_2", failed: "rel_2", target: "tgt_1" }, configs: ["in_sync", "in_sync"] },
    sick: { health: { state: "failing", failing: ["disk:/: 97% used"] }, labels: { zone: "a", rack: "2" } },
    well: { main: {}, health: { state: "ok" }, camera: { current: "rel_cam" } },
    blind: { main: { current: "rel_2", desired: "rel_2" }, camera: { desired: "rel_cam", failed: "rel_cam" } },
    late: { main: { current: "rel_2", desired: "rel_2" }, camera: { desired: "rel_cam" } },
  });
  const answers: Record<string, string[]> = {
    "release_id=rel_1": ["trying", "failed", "behind", "current"],
    "release_id=v+rel_1": ["trying", "failed", "behind", "current"],
    "release_id=rel_2": ["late", "blind"],
    "release_id=rel_cam": ["well", "current"],
    "app=camera": ["late", "blind", "well", "current"],
    "app=camera&release_state=current": ["well", "current"],
    "app=main&release_state=unknown": ["well"],
    "app=main&release_state=current": ["late", "blind", "current"],
    "release_state=current": ["well", "current"],
    "release_state=behind": ["late", "trying", "behind"],
    "release_state=failed": ["blind", "failed"],
    "release_state=unknown": ["sick"],
    "release_state=current&sort=name": ["current", "well"],
    "release_state=behind&sort=name": ["behind", "late", "trying"],
    "release_state=failed&sort=name": ["blind", "failed"],
    "config_state=drifted": ["behind"],
    "config_state=pending": ["failed"],
    "config_state=in_sync": ["trying"],
    "config_state=unknown": ["late", "blind", "well", "sick", "current"],
    "health=failing": ["sick"],
    "health=ok": ["well"],
    "health=unknown": ["late", "blind", "trying", "failed", "behind", "current"],
    "label=zone:a": ["sick", "current"],
    "label=zone:a&label=rack:1": ["current"],
    "label=zone:a&label=rack:1&sort=name": ["current"],
    "label=zone:a&sort=name": ["current", "sick"],
    "label=zone:a&label=zone:b": [],
    "label=zone:a&health=failing&q=SIC": ["sick"],
    "status=online&release_id=rel_1": ["current"],
    "status=offline&config_state=drifted&release_state=behind": ["behind"],
    "status=never_connected": ["late", "blind", "well", "sick", "trying", "failed"],
    [`fleet_id=${fleet_id}&sort=name&app=main`]: ["behind", "blind", "current", "failed", "late", "trying", "well"],
  };
  for (const [query, expected] of Object.entries(answers)) assert.deepEqual(await it.names(query), expected, query);
  // The filters find each robot by the states that the list shows for it.
  for (const robot of (await it.list("")).items)
    for (const field of ["release_state", "config_state", "health"] as const)
      assert.ok((await it.names(`${field}=${robot[field]}`)).includes(robot.name), `${robot.name} ${field}`);
  assert.deepEqual((await it.list("health=failing")).items[0]?.failing, ["disk:/: 97% used"]);
  const missing = await it.rig.call("GET", "/api/robots?release_id=rel_9", { token: it.token });
  assert.deepEqual([missing.status, missing.body.error.message], [404, "release rel_9 does not exist"]);
});

test("finds robots with an agent older than a version, and ignores versions that are not three numbers", TIMEOUT, async () => {
  await using it = await started();
  const versions = ["0.1.0", "0.2.0-rc.1", "0.2.0", "0.10.0", "1.0", "main", "0.0.99999999999", "0.1.0.1", "0.1.9 (abc)"];
  await robotsLike(it.rig, it.org_id, { none: {}, ...Object.fromEntries(versions.map((agent) => [agent, { agent }])) });
  assert.deepEqual(await it.names("agent_older_than=0.2.0"), ["0.1.9 (abc)", "0.1.0"]);
  assert.deepEqual(await it.names("agent_older_than=0.10.0&sort=name"), ["0.1.0", "0.1.9 (abc)", "0.2.0", "0.2.0-rc.1"]);
  assert.deepEqual(await it.names("agent_older_than=0.1.0"), []);
  for (const wrong of ["1.0", "1.0.0-rc", "x", "1.0.9999999999"])
    assert.equal((await it.rig.call("GET", `/api/robots?agent_older_than=${wrong}`, { token: it.token })).status, 400, wrong);
});

test("pages of the robot list neither repeat nor miss a robot, with any order and filter", TIMEOUT, async () => {
  await using it = await started();
  const traits = Array.from({ length: 23 }, (_, i): [string, Traits] => [
    `${i % 3 === 0 ? "Ä" : "a"}rm ${i % 7} ${i}`,
    { main: { current: "rel_1", desired: i % 2 === 0 ? "rel_2" : "rel_1" }, health: { state: "failing" }, configs: ["drifted", "drifted"] },
  ]);
  await robotsLike(it.rig, it.org_id, Object.fromEntries(traits));
  const walk = async (query: string): Promise<string[]> => {
    const seen: string[] = [];
    for (let cursor = ""; ;) {
      const page = await it.list(`${query}&limit=4${cursor}`);
      seen.push(...page.items.map(({ name }) => name));
      if (page.next_cursor === null) return seen;
      cursor = `&cursor=${page.next_cursor}`;
    }
  };
  for (const filter of ["", "release_id=rel_1", "release_state=behind", "health=failing", "config_state=drifted", "app=main"]) {
    const newest = traits.filter(([, { main }]) => filter !== "release_state=behind" || main?.desired === "rel_2").map(([name]) => name);
    assert.deepEqual(await walk(filter), newest.toReversed(), filter);
    const by_name = newest.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    assert.deepEqual(await walk(`${filter}&sort=name`), by_name, `${filter} by name`);
  }
  const { next_cursor } = await it.list("limit=1&sort=name");
  const { status } = await it.rig.call("GET", `/api/robots?limit=1&cursor=${next_cursor}`, { token: it.token });
  assert.equal(status, 400);
});

test("fields= returns only the named fields, in the order of the API document, with the values of whole robots", TIMEOUT, async () => {
  await using it = await started();
  const two_apps: Traits = { main: { current: "rel_1", desired: "rel_2" }, camera: { current: "rel_cam", desired: "rel_cam" } };
  const health: Traits["health"] = { state: "failing", failing: ["disk:/: 97% used"] };
  await robotsLike(it.rig, it.org_id, { plain: {}, full: { ...two_apps, health, configs: ["in_sync", "drifted"], labels: { a: "b" } } });
  const whole = (await it.list("")).items;
  assert.equal(whole[0]?.desired_release?.tag, "v rel_2");
  for (const field of Object.keys(whole[0] ?? {}))
    assert.deepEqual(
      (await it.list(`fields=${field}`)).items,
      whole.map((robot) => ({ [field]: robot[field as keyof Robot] })),
      field,
    );
  const some = await it.list("fields=release_state,name,id&limit=1");
  assert.deepEqual(Object.keys(some.items[0] ?? {}), ["id", "name", "release_state"]);
  // The cursor of a page is also valid for a request with other fields.
  const rest = await it.list(`fields=name&limit=1&cursor=${some.next_cursor}`);
  assert.deepEqual(rest, { items: [{ name: "plain" }], next_cursor: null });
  for (const [wrong, named] of [
    ["id,tokens", "tokens"],
    ["id,", '""'],
    ["node_id", "node_id"],
    ["constructor", "constructor"],
  ] as const) {
    const refused = await it.rig.call("GET", `/api/robots?fields=${wrong}`, { token: it.token });
    assert.equal(refused.status, 400, wrong);
    assert.match(refused.body.error.message, new RegExp(`^query parameter fields: a robot has no field ${named}; it has id, name, `));
  }
});
