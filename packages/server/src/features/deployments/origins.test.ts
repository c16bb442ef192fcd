import assert from "node:assert/strict";
import { test } from "node:test";
import { type Origin, repeatedBy, speaksSince } from "./origins.ts";

const origin = (id: string, order_number: number, of: Partial<Pick<Origin, "retry_of" | "rollback_of">> = {}): [string, Origin] => [
  id,
  { id, retry_of: null, rollback_of: null, order_number, ...of },
];
const origins = new Map([
  origin("first", 1),
  origin("second", 2),
  origin("back", 3, { rollback_of: "first" }),
  origin("again", 4, { retry_of: "back" }),
  origin("and_again", 5, { retry_of: "again" }),
]);

test("a retry or rollback counts for the fleet from the order number of its source", () => {
  const numbers = [...origins.keys()].map((id) => speaksSince(origins, id));
  assert.deepEqual(numbers, [1, 2, 1, 1, 1]);
  assert.equal(speaksSince(origins, "unknown"), null);
});

test("a retry includes the deployments that it repeats, a rollback does not", () => {
  assert.deepEqual(repeatedBy(origins, "and_again"), ["and_again", "again", "back"]);
  assert.deepEqual(repeatedBy(origins, "back"), ["back"]);
});
