import assert from "node:assert/strict";
import { test } from "node:test";
import { wrongLine } from "./wrong-place.ts";

const value = { limits: { "max.speed": 5, zones: [{ name: "a" }, { name: 7 }] } };

test("finds the line of the part that the error names", () => {
  assert.equal(wrongLine(value, "drive", "value drive.limits.max.speed must be <= 3 (schema of namespace nav)"), 3);
  assert.equal(wrongLine(value, "drive", "value drive.limits.zones.1.name must be string (schema of namespace nav)"), 9);
  assert.equal(wrongLine({ extra: 1 }, "drive", "value drive.extra is not in the schema (schema of namespace nav)"), 2);
});

test("returns no line for errors about the whole value or an unknown part", () => {
  for (const message of ["value drive must be object (schema of namespace nav)", "value drive.other must be string (x)", "no access"])
    assert.equal(wrongLine(value, "drive", message), undefined);
  assert.equal(wrongLine(5, "speed", "value speed must be <= 3 (schema of namespace nav)"), undefined);
});
