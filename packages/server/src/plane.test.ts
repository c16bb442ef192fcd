import assert from "node:assert/strict";
import { test } from "node:test";
import { undoAll } from "./plane.ts";

test("undoes all steps in reverse order even if one of them fails", async () => {
  const ended: string[] = [];
  const end = (name: string) => async () => void ended.push(name);
  const fail = (why: string) => async () => assert.fail(why);
  await undoAll([end("database"), end("bus"), end("link")]);
  assert.deepEqual(ended.splice(0), ["link", "bus", "database"]);
  await assert.rejects(undoAll([end("database"), fail("no bus"), end("link")]), /no bus/);
  assert.deepEqual(ended.splice(0), ["link", "database"]);
  await assert.rejects(undoAll([fail("no database"), end("bus"), fail("no link")]), (error: AggregateError) => {
    assert.deepEqual(
      error.errors.map(({ message }) => message),
      ["no link", "no database"],
    );
    return true;
  });
  assert.deepEqual(ended, ["bus"]);
});
