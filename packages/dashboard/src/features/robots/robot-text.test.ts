import assert from "node:assert/strict";
import { test } from "node:test";
import { bulkCommand, chunks, releaseName } from "./robot-text.ts";

test("prefixes a release tag with the app name unless the tag starts with that name", () => {
  assert.equal(releaseName({ app: "nav", tag: "nav-2.4.0" }), "nav-2.4.0");
  assert.equal(releaseName({ app: "nav", tag: "nav" }), "nav");
  assert.equal(releaseName({ app: "nav", tag: "2.4.0" }), "nav 2.4.0");
  assert.equal(releaseName({ app: "nav", tag: "navigation-1" }), "nav navigation-1");
  assert.equal(releaseName({ app: "main", tag: "2.4.0" }), "2.4.0");
});

test("shows a deleted release as deleted", () => {
  assert.equal(releaseName({ app: "nav", tag: "" }), "deleted release of nav");
});

test("splits a list of robots into batches without loss", () => {
  const parts = chunks([1, 2, 3, 4, 5], 2);
  assert.deepEqual(parts, [[1, 2], [3, 4], [5]]);
  assert.deepEqual(chunks([]), []);
});

test("the bulk command lists a few robot IDs and reads many from a file", () => {
  assert.match(bulkCommand(["rob_1"], { fleet_id: "fleet_1" }), /<<'END'\n\{"robot_ids":\["rob_1"\],"fleet_id":"fleet_1"\}\nEND$/);
  const many = bulkCommand(
    Array.from({ length: 6 }, (_, n) => `rob_${n}`),
    { labels: { set: { a: "it's" } } },
  );
  assert.doesNotMatch(many, /rob_1/);
  assert.match(many, /it'\\''s/);
});
