import assert from "node:assert/strict";
import { test } from "node:test";
import { childPath, numberAt, pathSteps } from "./field-path.ts";

test("parses the paths that it formats", () => {
  const path = childPath(childPath(childPath(childPath("", "pose"), "list"), 2), "x");
  assert.equal(path, "pose.list[2].x");
  assert.deepEqual(pathSteps(path), ["pose", "list", 2, "x"]);
  assert.deepEqual(pathSteps("[3][0]"), [3, 0]);
  assert.equal(childPath("", 3), "[3]");
  for (const wrong of ["", "a..b", "a[", "a[x]", "a]b"]) assert.equal(pathSteps(wrong), undefined, wrong);
});

test("finds numbers in messages, including the kept start of summarized lists", () => {
  const message = { pose: { x: 1.5, ok: true }, ranges: { length: 360, first: [3, 4, 5] }, list: [{ v: 7 }] };
  assert.equal(numberAt(message, "pose.x"), 1.5);
  assert.equal(numberAt(message, "pose.ok"), 1);
  assert.equal(numberAt(message, "ranges[1]"), 4);
  assert.equal(numberAt(message, "list[0].v"), 7);
  assert.equal(numberAt(12, ""), 12);
});

test("returns undefined for missing fields and for values that are not numbers", () => {
  const message = { text: "1", none: null, big: Number.NaN };
  for (const path of ["text", "none", "big", "none.x", "toString", "__proto__", "a.b"])
    assert.equal(numberAt(message, path), undefined, path);
});
