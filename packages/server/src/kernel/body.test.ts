import assert from "node:assert/strict";
import { test } from "node:test";
import { routes } from "@roamfleet/protocol/routes";
import { BODY_BYTES_MAX, BODY_FIELDS_MAX, bodyBytesMax, BOUNDED_BODY_BYTES_MAX, parseBody } from "./body.ts";

const parse = (text: string): unknown => parseBody(Buffer.from(text));

test("refuses a body with a duplicate field, in any spelling and at any depth", () => {
  for (const text of [
    '{"a":1,"a":2}',
    '{"a":1,"\\u0061":1}',
    '{"list":[{"a":1},{"b":{"c":1,"c":1}}]}',
    '{"a\\"":1,"a\\"":1}',
    '{"":1,"":1}',
    '{"a":":","a":","}',
  ])
    assert.throws(() => parse(text), /the body has a duplicate field/, text);
});

test("ignores colons, quotes and field names inside strings when it detects duplicate fields", () => {
  for (const text of [
    '{"a:b":"c:d"}',
    '{"a\\"":":","b":"\\\\"}',
    '[{"a":1},{"a":1}]',
    '"a:b"',
    '{"a\\\\":"\\":\\""}',
    "{}",
    "1",
    '{"1":{"1":1}}',
  ])
    assert.deepEqual(parse(text), JSON.parse(text));
});

test("refuses a number that is too large for JavaScript and would be stored as null", () => {
  for (const text of ["1e400", '{"value":-1e999}', `[${"9".repeat(400)}]`])
    assert.throws(() => parse(text), /a number that is too large/, text);
  assert.deepEqual(parse("[1e308,-0.5,1e-400]"), [1e308, -0.5, 0]);
});

test("accepts a body of one mebibyte only on routes with a field for arbitrary JSON or long text", () => {
  assert.equal(bodyBytesMax(routes.setConfig.body), BODY_BYTES_MAX);
  assert.equal(bodyBytesMax(routes.createRelease.body), BODY_BYTES_MAX);
  assert.equal(bodyBytesMax(routes.putFloorPlan.body), BODY_BYTES_MAX);
  for (const { body } of [routes.createSite, routes.enrollRobot, routes.createUser, routes.createDeployment])
    assert.equal(bodyBytesMax(body), BOUNDED_BODY_BYTES_MAX);
  assert.equal(bodyBytesMax(undefined), BOUNDED_BODY_BYTES_MAX);
});

test("refuses a body that needs too much memory, before parsing it", () => {
  const fields = (count: number): string => `{${Array.from({ length: count }, (_, at) => `"k${at}":0`).join(",")}}`;
  assert.equal(Object.keys(parse(fields(BODY_FIELDS_MAX)) as object).length, BODY_FIELDS_MAX);
  assert.throws(() => parse(fields(BODY_FIELDS_MAX + 1)), /more than 20000 fields/);
  assert.throws(() => parse(`[${"[],".repeat(200_000)}[]]`), /more than 100000 lists and objects/);
  assert.throws(() => parse(`{"a":${"[".repeat(64)}${"]".repeat(64)}}`), /nested deeper than 64 levels/);
  assert.ok(parse(`{"a":${"[".repeat(63)}${"]".repeat(63)},"b":"${"[".repeat(100)}"}`));
});
