import assert from "node:assert/strict";
import { test } from "node:test";
import { isSameView, readViews, withView } from "./saved-views.ts";

test("ignores stored views that are invalid", () => {
  assert.deepEqual(readViews(null), []);
  assert.deepEqual(readViews("{"), []);
  assert.deepEqual(readViews('{"a":1}'), []);
  assert.deepEqual(readViews('[null, 3, {"name":"a"}, {"name":"b","search":{"status":"online","x":1}}]'), [
    { name: "b", search: { status: "online" } },
  ]);
});

test("replaces a view with the same name and sorts views by name", () => {
  const views = withView(withView([{ name: "b", search: {} }], { name: "a", search: { q: "1" } }), { name: "b", search: { q: "2" } });
  assert.deepEqual(views, [
    { name: "a", search: { q: "1" } },
    { name: "b", search: { q: "2" } },
  ]);
});

test("compares views independently of the order of filters", () => {
  assert.equal(isSameView({ q: "x", status: "online" }, { status: "online", q: "x" }), true);
  assert.equal(isSameView({ q: "x" }, { q: "y" }), false);
});
