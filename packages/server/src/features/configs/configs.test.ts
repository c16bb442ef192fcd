import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigEntry, RobotConfig } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { configRoutes, effectiveConfig, effectiveFiles } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type One = { data: ConfigEntry };
type Many = { items: ConfigEntry[]; next_cursor: string | null };

async function start() {
  const rig = await startFeaturePlane([configRoutes]);
  const org = await rig.org();
  const set = (body: object, token = org.token) => rig.call<One>("POST", "/api/configs", { token, body });
  const refused = async (body: object, token = org.token) => {
    const { status, body: answer } = await rig.call("POST", "/api/configs", { token, body });
    return `${status} ${answer.error.message}`;
  };
  return {
    ...rig,
    org,
    anotherOrg: () => rig.org(),
    set,
    refused,
    get: <T>(path: string, token = org.token) => rig.call<T>("GET", path, { token }),
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

test("returns 201 for a new config value, and 200 with the next version for a change", TIMEOUT, async () => {
  await using rig = await start();
  const first = await rig.set({ key: "speed", value: 1 });
  assert.equal(first.status, 201);
  assert.equal(first.headers["location"], `/api/configs/${first.body.data.id}`);
  const { id, created_at: _, updated_at: __, updated_by, ...entry } = first.body.data;
  assert.match(id, /^cfg_/);
  assert.equal(updated_by, rig.org.token_id);
  assert.deepEqual(entry, {
    key: "speed",
    value: 1,
    namespace: "default",
    scope: "org",
    scope_id: null,
    version: 1,
    schema: null,
    secret: false,
    removed_at: null,
  });
  for (const [value, version] of [
    [null, 2],
    [{ a: [null, "ü"] }, 3],
    ["text", 4],
    [false, 5],
  ] as const) {
    const again = await rig.set({ key: "speed", value });
    assert.deepEqual([again.status, again.body.data.id, again.body.data.value, again.body.data.version], [200, id, value, version]);
  }
  assert.deepEqual((await rig.get<One>(`/api/configs/${id}`)).body.data.value, false);
});

test("concurrent changes of a config value get distinct versions", TIMEOUT, async () => {
  await using rig = await start();
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => rig.set({ key: "k", value: n })));
  assert.deepEqual(
    answers.map(({ body }) => body.data.version).toSorted((a, b) => a - b),
    Array.from({ length: 20 }, (_, n) => n + 1),
  );
  assert.equal(answers.filter(({ status }) => status === 201).length, 1);
});

test("returns 400 for an invalid scope, a missing field or a too long namespace", TIMEOUT, async () => {
  await using rig = await start();
  const { fleet_id } = await seedRobot(rig.plane, rig.org.org_id);
  assert.match(await rig.refused({ key: "k", value: 1, scope: "fleet" }), /^400 .*scope_id/);
  assert.match(await rig.refused({ key: "k", value: 1, scope_id: fleet_id }), /^400 .*scope/);
  assert.match(await rig.refused({ key: "k", value: 1, scope: "org", scope_id: fleet_id }), /^400 .*scope/);
  assert.match(await rig.refused({ key: "k", value: 1, scope: "planet" }), /^400 .*org, site, fleet, robot/);
  assert.match(await rig.refused({ key: "k" }), /^400 .*value/);
  assert.match(await rig.refused({ value: 1 }), /^400 .*key/);
  assert.match(await rig.refused({ key: "k", value: 1, namespace: "ü".repeat(34) }), /^400 .*namespace.*204 bytes/);
  assert.equal((await rig.set({ key: "k", value: 1, namespace: "ü".repeat(33) })).status, 201);
  assert.equal((await rig.set({ key: "k", value: 1, namespace: "../etc" })).status, 201);
});

test("returns 404 for scopes that do not exist in the org, and for entries of other orgs", TIMEOUT, async () => {
  await using rig = await start();
  const other = await rig.anotherOrg();
  const outside = await seedRobot(rig.plane, other.org_id);
  const mine = await seedRobot(rig.plane, rig.org.org_id);
  for (const [scope, scope_id] of [
    ["site", outside.site_id],
    ["fleet", outside.fleet_id],
    ["robot", outside.robot_id],
    ["robot", mine.fleet_id],
    ["site", "nowhere"],
  ]) {
    assert.match(await rig.refused({ key: "k", value: 1, scope, scope_id }), new RegExp(`^404 ${scope} `));
  }
  const { body } = await rig.set({ key: "k", value: 1 });
  assert.equal((await rig.get(`/api/configs/${body.data.id}`, other.token)).status, 404);
  assert.equal((await rig.call("DELETE", `/api/configs/${body.data.id}`, { token: other.token })).status, 404);
  assert.deepEqual((await rig.get<Many>("/api/configs", other.token)).body.items, []);
  assert.equal((await rig.call("DELETE", `/api/configs/${body.data.id}`, { token: rig.org.token })).status, 200);
  assert.equal((await rig.get(`/api/configs/${body.data.id}`)).status, 404);
});

test("lists config entries newest first, in pages, and filters them by field", TIMEOUT, async () => {
  await using rig = await start();
  const { fleet_id } = await seedRobot(rig.plane, rig.org.org_id);
  await rig.set({ key: "a", value: 1 });
  await rig.set({ key: "b", value: 1, namespace: "nav" });
  await rig.set({ key: "a", value: 1, scope: "fleet", scope_id: fleet_id });
  const keys = async (query: string) =>
    (await rig.get<Many>(`/api/configs${query}`)).body.items.map(({ key, namespace, scope }) => `${key} ${namespace} ${scope}`);
  assert.deepEqual(await keys(""), ["a default fleet", "b nav org", "a default org"]);
  assert.deepEqual(await keys("?namespace=nav"), ["b nav org"]);
  assert.deepEqual(await keys("?key=a&scope=org"), ["a default org"]);
  assert.deepEqual(await keys(`?scope_id=${fleet_id}`), ["a default fleet"]);
  const page = await rig.get<Many>("/api/configs?limit=2");
  assert.deepEqual(
    (await rig.get<Many>(`/api/configs?cursor=${page.body.next_cursor}`)).body.items.map(({ scope }) => scope),
    ["org"],
  );
});

test("a config value of a narrower scope overrides wider scopes, separately for each key", TIMEOUT, async () => {
  await using rig = await start();
  const { robot_id: first, ...place } = await seedRobot(rig.plane, rig.org.org_id);
  const { robot_id: second } = await seedRobot(rig.plane, rig.org.org_id, place);
  const { robot_id: far } = await seedRobot(rig.plane, rig.org.org_id);
  const scopes = [
    ["org", undefined],
    ["site", place.site_id],
    ["fleet", place.fleet_id],
    ["robot", first],
  ] as const;
  for (const [i, [scope, scope_id]] of scopes.entries()) {
    // Sets k0 for the org only, and k3 in all four scopes.
    for (let k = i; k < 4; k += 1) await rig.set({ key: `k${k}`, value: scope, scope, scope_id });
  }
  await rig.set({ key: "x", value: 0, namespace: "nav" });
  const values = async (id: string) =>
    Object.fromEntries((await effectiveConfig(rig.plane.db, rig.org.org_id, id, "default")).map(({ key, value }) => [key, value]));
  assert.deepEqual(await values(first), { k0: "org", k1: "site", k2: "fleet", k3: "robot" });
  assert.deepEqual(await values(second), { k0: "org", k1: "site", k2: "fleet", k3: "fleet" });
  assert.deepEqual(await values(far), { k0: "org", k1: "org", k2: "org", k3: "org" });

  const filesOf = async (robot_ids: string[], namespace: string | null, bytes_max?: number) => {
    const parts = [];
    const wanted = { robot_ids, namespace, ...(bytes_max === undefined ? {} : { bytes_max }) };
    for await (const part of effectiveFiles(rig.plane.db, rig.plane, rig.org.org_id, wanted)) parts.push(part);
    return parts;
  };
  const [files = new Map()] = await filesOf([first, second, far, "rob_gone"], null);
  assert.deepEqual([...files.keys()].toSorted(), [first, second, far].toSorted());
  for (const id of [first, second, far]) assert.deepEqual(JSON.parse(files.get(id)?.files.get("default")?.content ?? ""), await values(id));
  assert.deepEqual([...(files.get(far)?.files.keys() ?? [])].toSorted(), ["default", "nav"]);
  assert.deepEqual([...((await filesOf([far], "nav"))[0]?.get(far)?.files.keys() ?? [])], ["nav"]);
  const parts = await filesOf([first, second, far], null, 1);
  assert.deepEqual(
    parts.map((part) => part.size),
    [1, 1, 1],
  );
  assert.deepEqual(new Map(parts.flatMap((part) => [...part])), files);
});

test("shows the scope of each config value and whether the robot's files match the deployed ones", TIMEOUT, async () => {
  await using rig = await start();
  const { org_id } = rig.org;
  const { robot_id, fleet_id } = await seedRobot(rig.plane, org_id);
  await rig.set({ key: "k", value: 1 });
  const { body: fleet } = await rig.set({ key: "k", value: 2, scope: "fleet", scope_id: fleet_id });
  const read = async () => (await rig.get<{ data: RobotConfig }>(`/api/robots/${robot_id}/config`)).body.data;
  const undeployed = { namespace: "default", deployed_version: null, deployed_sha256: null, reported_sha256: null, state: "unknown" };
  const effective = [
    { namespace: "default", key: "k", value: 2, secret: false, scope: "fleet", scope_id: fleet_id, config_id: fleet.data.id, version: 1 },
  ];
  assert.deepEqual(await read(), { robot_id, config_state: "unknown", effective, namespaces: [undeployed] });

  const now = rig.clock.now();
  await rig.plane.db.run(sql`
    insert into robot_config (org_id, robot_id, namespace, version, content, sha256, target_id, updated_at)
    values (${org_id}, ${robot_id}, 'default', 3, ${'{"k":2}\n'}, 'aa', 'tgt_1', ${now})`);
  const steps: [ReturnType<typeof sql>, string][] = [
    [sql`update robot_config set target_id = 'tgt_1' where org_id = ${org_id}`, "pending"],
    [sql`update robot_config set target_id = null, reported_version = 3, reported_sha256 = 'aa' where org_id = ${org_id}`, "in_sync"],
    [sql`update robot_config set reported_sha256 = 'bb' where org_id = ${org_id}`, "drifted"],
    [sql`update robot_config set version = 4 where org_id = ${org_id}`, "pending"],
  ];
  for (const [change, state] of steps) {
    await rig.plane.db.run(change);
    const { config_state, namespaces } = await read();
    assert.deepEqual([config_state, namespaces[0]?.state], [state, state]);
  }
  assert.equal((await rig.get("/api/robots/rob_none/config")).status, 404);
});

test("refuses registry logins that are malformed or not secret, and never deploys them as files", TIMEOUT, async () => {
  await using rig = await start();
  const { robot_id } = await seedRobot(rig.plane, rig.org.org_id);
  const login = { namespace: "registries", key: "ghcr.io", value: { username: "robots", password: "hunter2" } };
  assert.match(await rig.refused(login), /^400 field secret must be true/);
  assert.match(await rig.refused({ ...login, secret: true, value: "hunter2" }), /^400 field value must be (?!.*hunter2)/);
  assert.equal((await rig.set({ ...login, secret: true })).body.data.value, null);
  const { effective, namespaces } = (await rig.get<{ data: RobotConfig }>(`/api/robots/${robot_id}/config`)).body.data;
  assert.deepEqual([effective.map(({ key, value }) => [key, value]), namespaces], [[["ghcr.io", null]], []]);
  assert.deepEqual((await rig.get<{ data: { changes: unknown[] } }>(`/api/robots/${robot_id}/config/diff`)).body.data.changes, []);
});
