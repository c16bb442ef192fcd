import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { JsonValue } from "@roamfleet/protocol";
import { configFile } from "./effective-files.ts";

test("creates the same JSON bytes for the same values in any order", () => {
  const values: [string, JsonValue][] = [
    ["b", [1, { z: null, a: [] }, "ü\n"]],
    ["a", {}],
    ["10", true],
    ["9", "x"],
  ];
  const file = configFile(new Map(values));
  assert.equal(
    file.content,
    '{\n  "10": true,\n  "9": "x",\n  "a": {},\n  "b": [\n    1,\n    {\n      "a": [],\n      "z": null\n    },\n    "ü\\n"\n  ]\n}\n',
  );
  assert.deepEqual(JSON.parse(file.content), Object.fromEntries(values));
  assert.equal(file.sha256, createHash("sha256").update(Buffer.from(file.content)).digest("hex"));
  assert.deepEqual(configFile(new Map(values.toReversed())), file);
});

test("writes a key named __proto__ like any other key, and an empty object without values", () => {
  assert.equal(configFile(new Map([["__proto__", 1]])).content, '{\n  "__proto__": 1\n}\n');
  assert.equal(configFile(new Map()).content, "{}\n");
});
