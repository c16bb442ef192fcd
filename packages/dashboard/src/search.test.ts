import assert from "node:assert/strict";
import { test } from "node:test";
import { readAdminSearch, readSignInSearch, readTokensSearch, readUsersSearch } from "./search.ts";

test("pages do not get invalid parameters, which the router would pass on unchanged", () => {
  const shown = <T extends object>(read: (search: Record<string, unknown>) => T, search: Record<string, unknown>) => ({
    ...search,
    ...read(search),
  });
  assert.equal(shown(readUsersSearch, { role: "owner" }).role, undefined);
  assert.equal(shown(readTokensSearch, { status: "lost" }).status, undefined);
  assert.equal(shown(readAdminSearch, { status: "lost" }).status, undefined);
  assert.equal(shown(readSignInSearch, { next: "//example.org" }).next, undefined);
  assert.deepEqual(readUsersSearch({ role: "admin", q: 404 }), { role: "admin", q: "404" });
});
