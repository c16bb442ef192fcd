import assert from "node:assert/strict";
import { test } from "node:test";
import { bulkCommand, chunks } from "./bulk-change.ts";

test("splits robots into parts without loss", () => {
  const parts = chunks([1, 2, 3, 4, 5], 2);
  assert.deepEqual(parts, [[1, 2], [3, 4], [5]]);
  assert.deepEqual(chunks([]), []);
});

test("lists few IDs in the command and reads many from a file", () => {
  assert.match(bulkCommand(["rob_1"], { fleet_id: "fleet_1" }), /<<'END'\n\{"robot_ids":\["rob_1"\],"fleet_id":"fleet_1"\}\nEND$/);
  const many = bulkCommand(
    Array.from({ length: 6 }, (_, n) => `rob_${n}`),
    { labels: { set: { a: "it's" } } },
  );
  assert.doesNotMatch(many, /rob_1/);
  assert.match(many, /it'\\''s/);
});
