import assert from "node:assert/strict";
import { test } from "node:test";
import { type Origin, repeatedBy, speaksSince } from "./origins.ts";

const origin = (id: string, minute: number, of: Partial<Pick<Origin, "retry_of" | "rollback_of">> = {}): [string, Origin] => [
  id,
  { id, retry_of: null, rollback_of: null, fan_out_at: new Date(minute * 60_000), ...of },
];
const origins = new Map([
  origin("first", 1),
  origin("second", 2),
  origin("back", 3, { rollback_of: "first" }),
  origin("again", 4, { retry_of: "back" }),
  origin("and_again", 5, { retry_of: "again" }),
]);

test("a deployment of another one's robots speaks for the fleet since the first of them began", () => {
  const minutes = [...origins.keys()].map((id) => (speaksSince(origins, id)?.getTime() ?? 0) / 60_000);
  assert.deepEqual(minutes, [1, 2, 1, 1, 1]);
  assert.equal(speaksSince(origins, "unknown"), null);
});

test("a retry goes on with what it repeats, a rollback begins anew", () => {
  assert.deepEqual(repeatedBy(origins, "and_again"), ["and_again", "again", "back"]);
  assert.deepEqual(repeatedBy(origins, "back"), ["back"]);
});
