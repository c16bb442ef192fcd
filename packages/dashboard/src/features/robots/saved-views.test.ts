import assert from "node:assert/strict";
import { test } from "node:test";
import { isSameView, readViews, withView } from "./saved-views.ts";

test("what was kept and cannot be understood is left out", () => {
  assert.deepEqual(readViews(null), []);
  assert.deepEqual(readViews("{"), []);
  assert.deepEqual(readViews('{"a":1}'), []);
  assert.deepEqual(readViews('[null, 3, {"name":"a"}, {"name":"b","search":{"status":"online","x":1}}]'), [
    { name: "b", search: { status: "online" } },
  ]);
});

test("a view of the same name is replaced, and they stand by name", () => {
  const views = withView(withView([{ name: "b", search: {} }], { name: "a", search: { q: "1" } }), { name: "b", search: { q: "2" } });
  assert.deepEqual(views, [
    { name: "a", search: { q: "1" } },
    { name: "b", search: { q: "2" } },
  ]);
});

test("views are the same in whatever order their filters were set", () => {
  assert.equal(isSameView({ q: "x", status: "online" }, { status: "online", q: "x" }), true);
  assert.equal(isSameView({ q: "x" }, { q: "y" }), false);
});
