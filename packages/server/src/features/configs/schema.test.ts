import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonValue } from "@roamfleet/protocol";
import { Fault } from "../../kernel/fault.ts";
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

test("one value is validated independent of other keys; constraints between keys are validated for the whole object", () => {
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

test("a violation by a secret reveals only its key", () => {
  const schema = compileSchema({ properties: { login: { additionalProperties: false, properties: { password: { minLength: 8 } } } } });
  const told = { path: "login", problem: "does not fit its schema" };
  assert.deepEqual(schema.member("login", { password: "short" }, true), told);
  assert.deepEqual(schema.member("login", { hunter2: 1 }, true), told);
  assert.equal(schema.member("login", { password: "short" })?.path, "login.password");
});

test("refuses schemas that refer outside themselves, are invalid, or do not describe an object", () => {
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

test("refuses schemas that could overload the server: too large, too deep, expanded by references, quadratic comparisons", () => {
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

test("matches in linear time a pattern that is exponential by backtracking, and refuses a value too large for its schema", () => {
  const schema = compileSchema({ properties: { a: { type: "string", pattern: "^(a+)+$" } } });
  assert.equal(schema.member("a", "aaaa"), undefined);
  // With backtracking this test would never end: 2^5000 steps.
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
