import assert from "node:assert/strict";
import { test } from "node:test";
import { readTableChoice } from "./table-choice.ts";

test("reads the stored choice for a table, and ignores invalid parts", () => {
  const choice = { hidden: ["Health", "Agent"], is_dense: true };
  assert.deepEqual(readTableChoice(JSON.stringify(choice)), choice);
  const none = { hidden: [], is_dense: false };
  for (const text of [null, "", "{", "null", "[]", '{"hidden":"Health","is_dense":1}']) assert.deepEqual(readTableChoice(text), none);
  assert.deepEqual(readTableChoice('{"hidden":[1,"Agent",null]}'), { hidden: ["Agent"], is_dense: false });
});
