import assert from "node:assert/strict";
import { test } from "node:test";
import { releaseName } from "./release-name.ts";

test("shows the app only before a tag that does not start with it", () => {
  assert.equal(releaseName({ app: "nav", tag: "nav-2.4.0" }), "nav-2.4.0");
  assert.equal(releaseName({ app: "nav", tag: "nav" }), "nav");
  assert.equal(releaseName({ app: "nav", tag: "2.4.0" }), "nav 2.4.0");
  assert.equal(releaseName({ app: "nav", tag: "navigation-1" }), "nav navigation-1");
  assert.equal(releaseName({ app: "main", tag: "2.4.0" }), "2.4.0");
});

test("shows a deleted release as deleted", () => {
  assert.equal(releaseName({ app: "nav", tag: "" }), "deleted release of nav");
});
