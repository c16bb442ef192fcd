import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigEntry, ConfigSchema, ConfigVersion } from "@roamfleet/protocol/routes";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { configRoutes } from "./index.ts";
import { HISTORY_VERSIONS_MAX } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };
type One = { data: ConfigEntry };
type Error_ = { error: { code: string; message: string } };

async function start() {
  const rig = await startFeaturePlane([configRoutes]);
  const { token, org_id } = await rig.org();
  const send = async <T>(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object) => {
    const { status, body: answer } = await rig.call<T & Error_>(method, `/api/configs${path}`, { token, body });
    return { status, ...answer, outcome: `${status} ${answer.error?.message ?? ""}` };
  };
  const history = async (id: string) =>
    (await send<{ items: ConfigVersion[] }>("GET", `/${id}/history`)).items.map(({ version, change, value, rollback_of, actor }) => [
      version,
      change,
      value,
      rollback_of,
      actor.type,
    ]);
  return { rig, org_id, send, history, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
}

test("records each config change as a version with its actor, even after a removal", TIMEOUT, async () => {
  await using it = await start();
  const { data } = await it.send<One>("POST", "", { key: "k", value: 1 });
  await it.send("POST", "", { key: "k", value: { a: null } });
  assert.equal((await it.send<One>("DELETE", `/${data.id}`)).data.version, 2);
  assert.match((await it.send("GET", `/${data.id}`)).outcome, /^404/);
  assert.match((await it.send("DELETE", `/${data.id}`)).outcome, /^404/);
  assert.deepEqual((await it.send<{ items: ConfigEntry[] }>("GET", "")).items, []);
  const [removed] = (await it.send<{ items: ConfigEntry[] }>("GET", "?removed=true")).items;
  assert.deepEqual([removed?.id, removed?.value, typeof removed?.removed_at], [data.id, null, "string"]);
  const again = await it.send<One>("POST", "", { key: "k", value: 3 });
  assert.deepEqual([again.status, again.data.id, again.data.version], [201, data.id, 4]);
  assert.deepEqual(await it.history(data.id), [
    [4, "set", 3, null, "org_token"],
    [3, "removed", null, null, "org_token"],
    [2, "set", { a: null }, null, "org_token"],
    [1, "set", 1, null, "org_token"],
  ]);
  assert.match((await it.send("GET", "/cfg_none/history")).outcome, /^404/);
  const page = await it.send<{ items: ConfigVersion[]; next_cursor: string }>("GET", `/${data.id}/history?limit=3`);
  const rest = await it.send<{ items: ConfigVersion[] }>("GET", `/${data.id}/history?cursor=${page.next_cursor}`);
  assert.deepEqual(
    [...page.items, ...rest.items].map(({ version }) => version),
    [4, 3, 2, 1],
  );
});

test("a rollback sets an old config value as a new version, and restores a removed entry", TIMEOUT, async () => {
  await using it = await start();
  const { id } = (await it.send<One>("POST", "", { key: "k", value: "one" })).data;
  await it.send("POST", "", { key: "k", value: "two" });
  const back = await it.send<One>("POST", `/${id}/rollback`, { version: 1 });
  assert.deepEqual([back.status, back.data.value, back.data.version], [200, "one", 3]);
  await it.send("DELETE", `/${id}`);
  assert.match((await it.send("POST", `/${id}/rollback`, { version: 4 })).outcome, /^409 .*removed the value/);
  assert.match((await it.send("POST", `/${id}/rollback`, { version: 9 })).outcome, /^404 config .* has no version/);
  assert.match((await it.send("POST", `/${id}/rollback`, { version: 9_999_999_999 })).outcome, /^404 config .* has no version/);
  assert.equal((await it.send<One>("POST", `/${id}/rollback`, { version: 2 })).data.value, "two");
  assert.deepEqual((await it.history(id)).slice(0, 3), [
    [5, "rolled_back", "two", 2, "org_token"],
    [4, "removed", null, null, "org_token"],
    [3, "rolled_back", "one", 1, "org_token"],
  ]);
});

test("refuses config values that violate the schema, and schemas that existing values violate", TIMEOUT, async () => {
  await using it = await start();
  const { fleet_id } = await seedRobot(it.rig.plane, it.org_id);
  const { id } = (await it.send<One>("POST", "", { namespace: "nav", key: "limits", value: { speed: 9 } })).data;
  const schema = {
    properties: { limits: { type: "object", properties: { speed: { type: "number", maximum: 5 } } } },
    required: ["mode"],
  };
  const put = () => it.send<{ data: ConfigSchema }>("PUT", "/schemas/nav", { schema });
  assert.match((await put()).outcome, /^409 .*nav.*limits\.speed of the org must be <= 5/);
  await it.send("POST", "", { namespace: "nav", key: "limits", value: { speed: 5 } });
  // `mode` is missing, but required keys are only checked for the whole config of a robot.
  assert.equal((await put()).status, 201);
  assert.equal((await put()).data.version, 2);
  for (const scope of [{}, { scope: "fleet", scope_id: fleet_id }]) {
    const bad = { namespace: "nav", key: "limits", value: { speed: "fast" }, ...scope };
    assert.match((await it.send("POST", "", bad)).outcome, /^400 value limits\.speed must be number \(schema of namespace nav\)/);
  }
  assert.match((await it.send("POST", `/${id}/rollback`, { version: 1 })).outcome, /^400 value limits\.speed must be <= 5/);
  assert.deepEqual((await it.send<One>("GET", `/${id}`)).data.schema, schema.properties.limits);
  assert.equal((await it.send("POST", "", { key: "limits", value: { speed: 9 } })).status, 201);
  assert.deepEqual(
    (await it.send<{ items: ConfigSchema[] }>("GET", "/schemas")).items.map(({ namespace }) => namespace),
    ["nav"],
  );
  assert.equal((await it.send("DELETE", "/schemas/nav")).status, 200);
  assert.match((await it.send("GET", "/schemas/nav")).outcome, /^404 schema of namespace nav/);
  assert.equal((await it.send("POST", "", { namespace: "nav", key: "limits", value: "anything" })).status, 200);
  assert.match((await it.send("PUT", "/schemas/nav", { schema: { type: "string" } })).outcome, /^400/);
});

test("keeps only the newest HISTORY_VERSIONS_MAX versions of a config value", TIMEOUT, async () => {
  await using it = await start();
  const { data: other } = await it.send<One>("POST", "", { key: "other", value: "stays" });
  let id = "";
  for (let value = 1; value <= HISTORY_VERSIONS_MAX + 3; value += 1) ({ id } = (await it.send<One>("POST", "", { key: "k", value })).data);
  const { items } = await it.send<{ items: ConfigVersion[] }>("GET", `/${id}/history?limit=1000`);
  assert.deepEqual([items.length, items[0]?.version, items.at(-1)?.version], [HISTORY_VERSIONS_MAX, HISTORY_VERSIONS_MAX + 3, 4]);
  assert.match((await it.send("POST", `/${id}/rollback`, { version: 3 })).outcome, /^404 .*has no version 3/);
  const back = await it.send<One>("POST", `/${id}/rollback`, { version: 5 });
  assert.deepEqual([back.data.value, back.data.version], [5, HISTORY_VERSIONS_MAX + 4]);
  assert.deepEqual(await it.history(other.id), [[1, "set", "stays", null, "org_token"]]);
});
