import assert from "node:assert/strict";
import { test } from "node:test";
import { parseBrowserViews } from "./browser-views.ts";

test("ignores invalid views in the storage of the browser", () => {
  assert.deepEqual(parseBrowserViews(null), []);
  assert.deepEqual(parseBrowserViews("{"), []);
  assert.deepEqual(parseBrowserViews('{"a":1}'), []);
  assert.deepEqual(parseBrowserViews('[null, 3, {"name":"a"}, {"name":"b","search":{"status":"online","x":1}}]'), [
    { name: "b", search: { status: "online" } },
  ]);
});
