import assert from "node:assert/strict";
import { test } from "node:test";
import { diffValues } from "./configs.ts";

test("compares two config values recursively", () => {
  const before = { speed: 1, limits: { x: 1, y: 2 }, zones: ["a", "b"], gone: null, grown: [1] };
  const after = { speed: 1, limits: { y: 3, z: 4 }, zones: ["a", "c"], grown: [1, 2] };
  assert.deepEqual(diffValues(before, after), [
    { path: "gone", before: null, after: undefined },
    { path: "grown", before: [1], after: [1, 2] },
    { path: "limits.x", before: 1, after: undefined },
    { path: "limits.y", before: 2, after: 3 },
    { path: "limits.z", before: undefined, after: 4 },
    { path: "zones[1]", before: "b", after: "c" },
  ]);
  assert.deepEqual(diffValues(1, { a: 1 }), [{ path: "", before: 1, after: { a: 1 } }]);
  assert.deepEqual(diffValues({ a: [] }, { a: [] }), []);
  assert.deepEqual(diffValues({}, JSON.parse('{"__proto__": 1}')), [{ path: "__proto__", before: undefined, after: 1 }]);
});
