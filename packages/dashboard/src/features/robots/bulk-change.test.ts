import assert from "node:assert/strict";
import { test } from "node:test";
import { bulkCommand, chunks } from "./bulk-change.ts";

test("every robot is in one part", () => {
  const parts = chunks([1, 2, 3, 4, 5], 2);
  assert.deepEqual(parts, [[1, 2], [3, 4], [5]]);
  assert.deepEqual(chunks([]), []);
});

test("few robots stand in the line itself, for many it says where they come from", () => {
  assert.match(bulkCommand(["rob_1"], { fleet_id: "fleet_1" }), /<<'END'\n\{"robot_ids":\["rob_1"\],"fleet_id":"fleet_1"\}\nEND$/);
  const many = bulkCommand(
    Array.from({ length: 6 }, (_, n) => `rob_${n}`),
    { labels: { set: { a: "it's" } } },
  );
  assert.doesNotMatch(many, /rob_1/);
  assert.match(many, /it'\\''s/);
});
