import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonText, readJson } from "./json-text.ts";

test("a text is the value that its JSON says", () => {
  for (const value of [1.5, "a", null, false, [1, { a: "b" }]]) assert.deepEqual(readJson(jsonText(value)), { value });
});

test("what is no JSON is said with the place where it stops being it", () => {
  assert.deepEqual(readJson('{\n  "a": 1,\n  b\n}'), { problem: "Not JSON: line 3, column 3" });
  assert.deepEqual(readJson('{"a":'), { problem: "Not JSON: line 1, column 6" });
  assert.deepEqual(readJson(" "), { problem: "Nothing is written here yet." });
});

test("a number that JSON cannot carry is refused, not sent as null", () => {
  assert.deepEqual(readJson("[1e999]"), { problem: "A number is too large." });
});
