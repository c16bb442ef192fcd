import assert from "node:assert/strict";
import { test } from "node:test";
import type { Token, User } from "@roamfleet/protocol/routes";
import { freeRoles, isLastAdmin, scopeWords } from "./grants.ts";

const user = (id: string, grants: User["grants"]): User => ({
  id,
  email: `${id}@example.org`,
  name: id,
  role: grants[0]!.role,
  grants,
  last_seen_at: null,
  created_at: "",
  updated_at: "",
});
const admin = (id: string): User => user(id, [{ role: "admin", scopes: [] }]);
const token = (change: Partial<Token>): Token => ({
  id: "tok_1",
  label: null,
  role: "admin",
  scopes: [],
  prefix: "rf_org_00000",
  user_id: null,
  status: "active",
  expires_at: null,
  last_used_at: null,
  revoked_at: null,
  created_by: null,
  created_at: "",
  updated_at: "",
  ...change,
});

test("the only admin of the whole organization counts as the last admin", () => {
  const ada = admin("ada");
  const of_a_site = user("bob", [{ role: "admin", scopes: [{ site_id: "site_1" }] }]);
  assert.equal(isLastAdmin(ada, [ada, of_a_site], []), true);
  assert.equal(isLastAdmin(of_a_site, [ada, of_a_site], []), false);
});

test("an admin is not the last admin if another admin or admin token exists", () => {
  const ada = admin("ada");
  assert.equal(isLastAdmin(ada, [ada, admin("eve")], []), false);
  assert.equal(isLastAdmin(ada, [ada], [token({})]), false);
});

test("revoked, restricted or personal tokens do not replace the last admin", () => {
  const ada = admin("ada");
  const weak = [
    token({ status: "revoked" }),
    token({ role: "operator" }),
    token({ scopes: [{ site_id: "s" }] }),
    token({ user_id: "ada" }),
  ];
  assert.equal(isLastAdmin(ada, [ada], weak), true);
});

test("shows a role's scopes by name, or by ID if the object is not visible", () => {
  const sites = new Map([["site_1", "Hall"]]);
  const fleets = new Map([["fleet_1", "Carts"]]);
  assert.equal(scopeWords([], sites, fleets), "whole organization");
  assert.equal(
    scopeWords([{ site_id: "site_1" }, { fleet_id: "fleet_1" }, { fleet_id: "fleet_9" }], sites, fleets),
    "site Hall, fleet Carts, fleet fleet_9",
  );
});

test("offers only roles that the user does not have yet", () => {
  assert.deepEqual(freeRoles([{ role: "operator", scopes: [] }]), ["viewer", "admin"]);
});
