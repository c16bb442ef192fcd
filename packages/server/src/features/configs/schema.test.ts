import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonValue } from "@roamfleet/protocol";
import type { ConfigEntry, RobotConfigDiff } from "@roamfleet/protocol/routes";
import { Fault } from "../../kernel/fault.ts";
import { sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { createCredential } from "../tokens/index.ts";
import { configRoutes, effectiveFiles } from "./index.ts";
import { compileSchema, sentenceOf } from "./schema.ts";

const none: ReadonlySet<string> = new Set();

function refusal(schema: unknown): string {
  try {
    compileSchema(schema);
  } catch (error) {
    assert.ok(error instanceof Fault, String(error));
    assert.equal(error.status, 400);
    return error.message;
  }
  assert.fail("the schema was accepted");
}

test("validates the value of one key alone, and constraints between keys only on the whole object", () => {
  const schema = compileSchema({
    type: "object",
    required: ["speed", "mode"],
    properties: { speed: { type: "number", maximum: 5 }, mode: { enum: ["slow", "fast"] }, limits: { $ref: "#/$defs/limits" } },
    additionalProperties: false,
    if: { properties: { mode: { const: "fast" } }, required: ["mode"] },
    else: { properties: { speed: { maximum: 1 } } },
    $defs: { limits: { type: "object", properties: { x: { type: "integer" } } } },
  });
  assert.equal(schema.member("speed", 3), undefined);
  assert.deepEqual(schema.member("speed", 6), { path: "speed", problem: "must be <= 5" });
  assert.deepEqual(schema.member("limits", { x: 1.5 }), { path: "limits.x", problem: "must be integer" });
  assert.deepEqual(schema.member("colour", 1), { path: "colour", problem: "is not in the schema" });
  assert.deepEqual(schema.whole(new Map([["speed", 1]]), none), { path: "", problem: "must have required property 'mode'" });
  const whole = new Map<string, JsonValue>([
    ["speed", 3],
    ["mode", "slow"],
  ]);
  assert.deepEqual(schema.whole(whole, none), { path: "speed", problem: "must be <= 1" });
  assert.equal(schema.whole(whole.set("speed", 1), none), undefined);
  assert.equal(
    sentenceOf("nav", { path: "limits.x", problem: "must be integer" }),
    "value limits.x must be integer (schema of namespace nav)",
  );
});

test("the error for an invalid secret contains only its key", () => {
  const schema = compileSchema({ properties: { login: { additionalProperties: false, properties: { password: { minLength: 8 } } } } });
  const told = { path: "login", problem: "violates its schema" };
  assert.deepEqual(schema.member("login", { password: "short" }, true), told);
  assert.deepEqual(schema.member("login", { hunter2: 1 }, true), told);
  assert.equal(schema.member("login", { password: "short" })?.path, "login.password");
});

test("refuses schemas that are invalid, use external references or do not describe an object", () => {
  assert.match(refusal([]), /an object/);
  assert.match(refusal({ type: "array" }), /type must be object/);
  assert.match(refusal({ properties: { a: { $ref: "https://example.org/schema" } } }), /none of the schema's \$defs/);
  assert.match(refusal({ properties: { a: { $ref: "#/$defs/none" } } }), /none of the schema's \$defs/);
  assert.match(refusal({ $id: "https://example.org/x" }), /\$id/);
  assert.match(refusal({ properties: { a: { type: "nonsense" } } }), /not a JSON Schema/);
  assert.match(refusal({ properties: { a: { tpye: "string" } } }), /tpye/);
  assert.match(refusal({ properties: { a: { format: "colour" } } }), /colour/);
  assert.match(refusal({ $schema: "http://json-schema.org/draft-07/schema#" }), /2020-12/);
  assert.equal(compileSchema({ $schema: "https://json-schema.org/draft/2020-12/schema" }).member("a", 1), undefined);
});

test("refuses schemas that are too large, too deep or too expensive to validate", () => {
  assert.match(refusal({ description: "x".repeat(70_000) }), /65536 bytes/);
  assert.match(refusal({ properties: Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`k${n}`, {}])) }), /1000 parts/);
  let deep: object = {};
  for (let n = 0; n < 40; n += 1) deep = { properties: { a: deep } };
  assert.match(refusal(deep), /deeper than 32/);
  const $defs = Object.fromEntries(
    Array.from({ length: 12 }, (_, n) => [
      `d${n}`,
      n === 11 ? {} : { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
    ]),
  );
  assert.match(refusal({ $defs, properties: { a: { $ref: "#/$defs/d0" } } }), /1000 parts/);
  assert.match(refusal({ $defs: { d: { properties: { a: { $ref: "#/$defs/d" } } } } }), /refers to itself/);
  assert.match(refusal({ properties: { a: { type: "array", uniqueItems: true } } }), /uniqueItems needs a maxItems/);
  assert.match(refusal({ properties: { a: { type: "string", pattern: "(?=a)a" } } }), /look-around/);
  assert.match(refusal({ properties: { a: { type: "string", pattern: "((a{1,99}){1,99}){1,99}" } } }), /pattern/);
});

test("matches patterns in linear time, and refuses a value that is too large for its schema", () => {
  const schema = compileSchema({ properties: { a: { type: "string", pattern: "^(a+)+$" } } });
  assert.equal(schema.member("a", "aaaa"), undefined);
  // A matcher with backtracking would need 2^5000 steps.
  assert.deepEqual(schema.member("a", `${"a".repeat(5_000)}!`), { path: "a", problem: 'must match pattern "^(a+)+$"' });
  const patterns = compileSchema({ patternProperties: { "^x-": { type: "integer" } } });
  assert.equal(patterns.member("x-1", 1), undefined);
  assert.deepEqual(patterns.member("x-1", "one"), { path: "x-1", problem: "must be integer" });
  const wide = compileSchema({ properties: { a: { items: { anyOf: Array.from({ length: 400 }, (_, n) => ({ const: n })) } } } });
  assert.match(
    wide.member(
      "a",
      Array.from({ length: 90_000 }, () => -1),
    )?.problem ?? "",
    /too large/,
  );
});

const TIMEOUT = { timeout: 120_000 };
const KEY = "api_password";

/**
 * Two possible values of one secret. Each schema below accepts only one of them; the result of validation must not reveal which value is
 * stored.
 */
const SECRETS: readonly JsonValue[] = ["hunter2", { user: "x", pin: [1, 2] }];
const PROBES: readonly object[] = [
  { properties: { [KEY]: { type: "string" } } },
  { properties: { [KEY]: { type: "object" } } },
  { properties: { [KEY]: { pattern: "^[n-z]" } } },
  { properties: { [KEY]: { required: ["pin"] } } },
  { properties: { [KEY]: { $ref: "#/$defs/text" } }, $defs: { text: { maxLength: 3 } } },
  { $ref: "#/$defs/all", $defs: { all: { properties: { [KEY]: { const: "hunter2" } } } } },
  { patternProperties: { "^api_": { type: "string" } } },
  { additionalProperties: { type: "string" } },
  { unevaluatedProperties: { type: "object" } },
  { allOf: [{ properties: { [KEY]: { minLength: 8 } } }] },
  { dependentSchemas: { [KEY]: { properties: { [KEY]: { enum: ["hunter2"] } } } } },
  { not: { properties: { [KEY]: { type: "string" } } } },
  { oneOf: [{ properties: { [KEY]: { type: "string" } } }, { properties: { mode: { const: "slow" } } }] },
  JSON.parse(`{ "if": { "properties": { "${KEY}": { "type": "string" } } }, "then": { "required": ["absent"] } }`) as object,
  { if: { properties: { [KEY]: { type: "object" } } }, else: { properties: { mode: { const: "fast" } } } },
  { const: { [KEY]: "hunter2", mode: "slow" } },
  { enum: [{ [KEY]: "hunter2", mode: "slow" }] },
];

const whole = (schema: object, secret: JsonValue, others: Record<string, JsonValue> = { mode: "slow" }) =>
  compileSchema(schema).whole(new Map([[KEY, secret], ...Object.entries(others)]), new Set([KEY]));

test("the result of validating an object does not depend on its secrets", () => {
  for (const probe of PROBES) {
    const [first, second] = SECRETS.map((secret) => whole(probe, secret));
    assert.deepEqual(first, second, JSON.stringify(probe));
  }
  // Constraints on the secret alone are ignored.
  for (const probe of PROBES.slice(0, 8)) {
    assert.equal(whole(probe, "hunter2", {}), undefined, JSON.stringify(probe));
    assert.equal(whole(probe, { user: "x", pin: [1, 2] }, {}), undefined, JSON.stringify(probe));
  }
});

test("validates the presence of a secret, and all other keys as usual", () => {
  assert.equal(whole({ required: [KEY] }, "x"), undefined);
  assert.match(whole({ required: [KEY, "other"] }, "x")?.problem ?? "", /required property 'other'/);
  assert.deepEqual(whole({ properties: { mode: {} }, additionalProperties: false }, "x"), { path: KEY, problem: "is not in the schema" });
  assert.equal(whole({ properties: { mode: {}, [KEY]: { type: "number" } }, additionalProperties: false }, "x"), undefined);
  assert.ok(whole({ properties: { [KEY]: false } }, "x"));
  assert.deepEqual(whole({ additionalProperties: { type: "integer" } }, "x"), { path: "mode", problem: "must be integer" });
  assert.deepEqual(whole({ properties: { mode: { properties: { a: { type: "integer" } } } } }, "x", { mode: { a: "b" } }), {
    path: "mode.a",
    problem: "must be integer",
  });
  assert.throws(() => compileSchema({ properties: { a: { "x-hidden": true } } }), /x-hidden/, "tenants cannot use the internal keyword");
});

async function start() {
  const rig = await startFeaturePlane([configRoutes]);
  const { org_id, token } = await rig.org();
  const tokenOf = async (role: "operator" | "viewer", fleet_id?: string) =>
    (await createCredential(rig.plane.db, rig.plane, { kind: "org", org_id, role, scopes: fleet_id === undefined ? [] : [{ fleet_id }] }))
      .secret;
  const send = async <T>(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object, as = token) => {
    const { status, body: answer } = await rig.call<T & { error?: { message: string } }>(method, `/api${path}`, { token: as, body });
    return { ...answer, outcome: `${status} ${answer.error?.message ?? ""}` };
  };
  const set = (body: object, as?: string) => send<{ data: ConfigEntry }>("POST", "/configs", body, as);
  return { rig, org_id, tokenOf, send, set, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
}

test("a schema set by an operator reveals nothing about existing secrets", TIMEOUT, async () => {
  await using it = await start();
  const { robot_id, fleet_id } = await seedRobot(it.rig.plane, it.org_id);
  const operator = await it.tokenOf("operator");
  await it.set({ key: KEY, value: "hunter2", secret: true });
  await it.set({ key: KEY, value: "other", secret: true, scope: "fleet", scope_id: fleet_id });
  const removed = await it.set({ key: "old", value: "hunter2", secret: true });
  await it.send("DELETE", `/configs/${removed.data.id}`);
  await it.set({ namespace: "registries", key: "ghcr.io", value: { username: "u", password: "hunter2" }, secret: true });
  const put = async (namespace: string, schema: object) =>
    (await it.send("PUT", `/configs/schemas/${namespace}`, { schema }, operator)).outcome;
  const refusal = async () => {
    const wanted = { robot_ids: [robot_id], namespace: null };
    for await (const part of effectiveFiles(it.rig.plane.db, it.rig.plane, it.org_id, wanted)) return part.get(robot_id)?.refusal;
    return assert.fail("no files");
  };
  for (const pattern of ["^[a-m]", "^[n-z]"]) {
    assert.match(await put("default", { properties: { [KEY]: { pattern }, old: { pattern } }, required: [KEY] }), /^20[01] /);
    assert.equal(await refusal(), null);
    const password = { properties: { password: { pattern } } };
    assert.match(await put("registries", { properties: { "ghcr.io": password }, additionalProperties: password }), /^20[01] /);
  }
  // The schema applies to secrets that an admin sets from now on.
  const outcome = (await it.set({ key: KEY, value: "hunter2", secret: true })).outcome;
  assert.equal(outcome, `400 value ${KEY} violates its schema (schema of namespace default)`);
  assert.match((await it.set({ key: KEY, value: "other", secret: true })).outcome, /^200/);
  assert.match(await put("default", { required: [KEY, "missing"] }), /^200/);
  assert.match((await refusal()) ?? "", /must have required property 'missing'/);
});

test("an operator can neither restore an old secret nor guess it through a config diff", TIMEOUT, async () => {
  await using it = await start();
  const { robot_id } = await seedRobot(it.rig.plane, it.org_id);
  const [operator, viewer] = [await it.tokenOf("operator"), await it.tokenOf("viewer")];
  const { id } = (await it.set({ key: KEY, value: "hunter2", secret: true })).data;
  const kept = (await it.set({ key: "kept", value: "k", secret: true })).data;
  assert.match((await it.send("POST", `/configs/${id}/rollback`, { version: 1 }, operator)).outcome, /^403/);
  assert.match((await it.send("POST", `/configs/${id}/rollback`, { version: 1 })).outcome, /^200/);
  const fileOf = async () => {
    const wanted = { robot_ids: [robot_id], namespace: "default" };
    for await (const part of effectiveFiles(it.rig.plane.db, it.rig.plane, it.org_id, wanted)) {
      const file = part.get(robot_id)?.files.get("default");
      if (file !== undefined) return file;
    }
    return assert.fail("no file");
  };
  const { content, sha256 } = await fileOf();
  assert.equal((await fileOf()).sha256, sha256, "the same values give the same file");
  await it.rig.plane.db.run(sql`
    insert into robot_config (org_id, robot_id, namespace, version, content, sha256, target_id, updated_at)
    values (${it.org_id}, ${robot_id}, 'default', 1, ${content}, ${sha256}, null, ${it.rig.clock.now()})`);
  const changes = async () =>
    (await it.send<{ data: RobotConfigDiff }>("GET", `/robots/${robot_id}/config/diff`, undefined, viewer)).data.changes;
  assert.deepEqual(await changes(), []);
  await it.send("DELETE", `/configs/${id}`);
  for (const guess of ["hunter1", "hunter2"]) {
    assert.match((await it.set({ key: KEY, value: guess }, operator)).outcome, /^20[01]/);
    const change = { namespace: "default", key: KEY, change: "changed", deployed: null, effective: null, secret: true };
    assert.deepEqual(await changes(), [change], guess);
    assert.notEqual((await fileOf()).sha256, sha256, guess);
  }
  assert.match((await it.send("POST", `/configs/${kept.id}/rollback`, { version: 1 }, operator)).outcome, /^403/);
});

test("the error about a secret key names only sites, fleets and robots that the caller may see", TIMEOUT, async () => {
  await using it = await start();
  const mine = await seedRobot(it.rig.plane, it.org_id);
  const outside = await seedRobot(it.rig.plane, it.org_id);
  const sibling = await seedRobot(it.rig.plane, it.org_id, { site_id: mine.site_id });
  const operator = await it.tokenOf("operator", mine.fleet_id);
  const secret = { value: "x", secret: true };
  await it.set({ ...secret, key: "a", scope: "robot", scope_id: outside.robot_id });
  await it.set({ ...secret, key: "b", scope: "fleet", scope_id: sibling.fleet_id });
  await it.set({ ...secret, key: "c", scope: "site", scope_id: mine.site_id });
  await it.set({ ...secret, key: "d", scope: "robot", scope_id: outside.robot_id });
  await it.set({ ...secret, key: "d", scope: "robot", scope_id: mine.robot_id });
  await it.set({ ...secret, key: "e" });
  const whereOf = async (key: string) =>
    /^409 key "?\w"? of namespace "?default"? is a secret (.*): set it/.exec(
      (await it.set({ key, value: 1, scope: "fleet", scope_id: mine.fleet_id }, operator)).outcome,
    )?.[1];
  for (const key of ["a", "b", "c"]) assert.equal(await whereOf(key), "elsewhere in the org", key);
  assert.equal(await whereOf("d"), `for robot ${mine.robot_id}`);
  assert.equal(await whereOf("e"), "for the org");
  assert.match((await it.set({ key: "a", value: 1 })).outcome, new RegExp(`is a secret for robot ${outside.robot_id}:`));
});
