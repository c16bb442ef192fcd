import assert from "node:assert/strict";
import { test } from "node:test";
import { type Role, roleAtLeast, ROLES } from "@roamfleet/protocol";
import fc from "fast-check";
import { type Grant, type Place, requireInWholeOrg, requireReached, roleOn, type Scope, WHOLE_ORG } from "./caller.ts";
import { Fault, notFound } from "./fault.ts";

const SITES = ["site_a", "site_b", "site_c"];
const FLEETS = ["fleet_1", "fleet_2", "fleet_3", "fleet_4"];
/** Fleets 1 and 2 are at site a, 3 at b, 4 at c. */
const SITE_OF: Record<string, string> = { fleet_1: "site_a", fleet_2: "site_a", fleet_3: "site_b", fleet_4: "site_c" };

const scope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constantFrom(...SITES).map((site_id) => ({ site_id })),
  fc.constantFrom(...FLEETS).map((fleet_id) => ({ fleet_id })),
);
const scopes = fc.array(scope, { maxLength: 3 });
const role = fc.constantFrom<Role>(...ROLES);
const grant: fc.Arbitrary<Grant> = fc.record({ role, scopes });
const caller = fc.record({ grants: fc.array(grant, { maxLength: 4 }), limit: scopes });
const place: fc.Arbitrary<Place> = fc.oneof(
  fc.constantFrom(...FLEETS).map((fleet_id) => ({ site_id: SITE_OF[fleet_id] ?? null, fleet_id })),
  fc.constantFrom(...SITES).map((site_id) => ({ site_id, fleet_id: null })),
  fc.constant(WHOLE_ORG),
);

/** Lists every place that the scopes contain: an independent implementation of `contains`. */
function reach(given: readonly Scope[]): (at: Place) => boolean {
  if (given.length === 0) return () => true;
  const fleets = new Set(
    given.flatMap(({ site_id, fleet_id }) => (fleet_id === undefined ? FLEETS.filter((id) => SITE_OF[id] === site_id) : [fleet_id])),
  );
  const sites = new Set(given.flatMap(({ site_id }) => site_id ?? []));
  return ({ site_id, fleet_id }) => (fleet_id === null ? site_id !== null && sites.has(site_id) : fleets.has(fleet_id));
}

test("a caller has the highest role of all matching grants, within the token's limit", () => {
  fc.assert(
    fc.property(caller, place, ({ grants, limit }, at) => {
      const there = grants.filter((one) => reach(one.scopes)(at)).map((one) => one.role);
      const expected = reach(limit)(at) ? ROLES.toReversed().find((one) => there.includes(one)) : undefined;
      assert.equal(roleOn({ grants, limit }, at), expected);
    }),
    { numRuns: 2_000 },
  );
});

test("a grant for another site or fleet adds no permissions", () => {
  fc.assert(
    fc.property(caller, place, grant, ({ grants, limit }, at, other) => {
      fc.pre(!reach(other.scopes)(at));
      assert.equal(roleOn({ grants: [...grants, other], limit }, at), roleOn({ grants, limit }, at));
    }),
    { numRuns: 2_000 },
  );
});

test("a token's limit never raises a role, and a further grant never lowers one", () => {
  fc.assert(
    fc.property(caller, place, grant, ({ grants, limit }, at, more) => {
      const limited = roleOn({ grants, limit }, at);
      const free = roleOn({ grants, limit: [] }, at);
      assert.ok(limited === undefined || limited === free);
      const raised = roleOn({ grants: [...grants, more], limit }, at);
      assert.ok(limited === undefined || (raised !== undefined && roleAtLeast(raised, limited)));
    }),
    { numRuns: 2_000 },
  );
});

test("a scope with both or neither of site and fleet contains nothing", () => {
  const at: Place = { site_id: "site_a", fleet_id: "fleet_1" };
  for (const odd of [{}, { site_id: "site_a", fleet_id: "fleet_1" }]) {
    assert.equal(roleOn({ grants: [{ role: "admin", scopes: [odd] }], limit: [] }, at), undefined);
    assert.equal(roleOn({ grants: [{ role: "admin", scopes: [] }], limit: [odd] }, at), undefined);
  }
});

test("returns 404 for an object outside the token's limit, and 403 if the role is too low", () => {
  const grants: Grant[] = [
    { role: "viewer", scopes: [] },
    { role: "operator", scopes: [{ site_id: "site_a" }] },
  ];
  const missing = () => notFound("robot", "rob_x");
  const check = (limit: Scope[], fleet_id: string) => () =>
    requireReached(roleOn({ grants, limit }, { site_id: SITE_OF[fleet_id] ?? null, fleet_id }), "operator", missing);
  assert.doesNotThrow(check([], "fleet_1"));
  assert.throws(
    check([], "fleet_3"),
    (error) => error instanceof Fault && error.code === "forbidden" && /the token has viewer for this object/.test(error.message),
  );
  assert.throws(check([{ fleet_id: "fleet_2" }], "fleet_1"), (error) => error instanceof Fault && error.code === "not_found");
});

test("an operation on the whole org requires the role in the whole org, not in a part of it", () => {
  const base = { org_id: "org_x", token_id: "tok_x", actor: { type: "user" as const, id: "usr_x", name: null }, orgs: [] };
  const everywhere = { ...base, role: "admin" as const, grants: [{ role: "admin" as const, scopes: [] }], limit: [] };
  assert.doesNotThrow(() => requireInWholeOrg(everywhere, "admin"));
  const limited = { ...everywhere, limit: [{ site_id: "site_a" }] };
  assert.throws(() => requireInWholeOrg(limited, "viewer"), /needs the role viewer in the whole org/);
  const partly = {
    ...everywhere,
    grants: [
      { role: "viewer" as const, scopes: [] },
      { role: "admin" as const, scopes: [{ site_id: "site_a" }] },
    ],
  };
  assert.throws(() => requireInWholeOrg(partly, "operator"), /needs the role operator in the whole org/);
  assert.doesNotThrow(() => requireInWholeOrg(partly, "viewer"));
});
