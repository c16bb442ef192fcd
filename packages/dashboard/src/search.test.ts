import assert from "node:assert/strict";
import { test } from "node:test";
import * as search from "./search.ts";

/** Returns the parameters that a page gets. The router merges the parameters of the URL with those that `read` returns. */
const shown = (read: (search: search.Search) => object, url: search.Search): object => {
  const found = { ...url, ...search.exactSearch(read)(url) };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
};

test("pages do not get unknown or invalid URL parameters", () => {
  const bad = { utm_source: "mail", status: "lost", role: "owner", kind: "x".repeat(201), q: " ", app: "No App", action: "x".repeat(101) };
  const readers: ((url: search.Search) => object)[] = [
    search.readUsersSearch,
    search.readTokensSearch,
    search.readAdminSearch,
    search.readRobotsSearch,
    search.readReleasesSearch,
    search.readAuditSearch,
    search.readFleetsSearch,
    search.readSitesSearch,
    search.readKeysSearch,
    search.readDeploymentsSearch,
    search.readDeploymentSearch,
    search.readShellsSearch,
    search.readNothing,
  ];
  for (const read of readers) assert.deepEqual(shown(read, bad), {});
  assert.deepEqual(shown(search.readSignInSearch, { next: "//example.org" }), {});
  assert.deepEqual(shown(search.readUsersSearch, { role: "admin", q: 404 }), { role: "admin", q: "404" });
});

test("pages convert times in URLs to RFC 3339 and drop years that the API rejects", () => {
  assert.deepEqual(shown(search.readAuditSearch, { since: "2030-01-01", until: "10000-01-01" }), { since: "2030-01-01T00:00:00.000Z" });
  assert.deepEqual(shown(search.readDeploymentsSearch, { since: "1066-10-14" }), {});
  assert.deepEqual(shown(search.readLogSearch, { since: "999999d", until: "2h" }), { until: "2h" });
});

test("pages drop texts and labels in URLs that the API would reject", () => {
  assert.deepEqual(shown(search.readSitesSearch, { q: "a\0b" }), {});
  assert.deepEqual(shown(search.readSitesSearch, { q: "\ud800" }), {});
  assert.deepEqual(shown(search.readRobotsSearch, { label: ["zone:a", "b:", `c:${"x".repeat(300)}`, "none"] }), { label: "zone:a" });
  const many = Array.from({ length: 17 }, (_, at) => `key${at}:1`);
  assert.deepEqual(shown(search.readRobotsSearch, { label: many }), { label: many.slice(0, 16) });
});
