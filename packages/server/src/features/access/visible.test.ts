import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Role, ROLES } from "@roamfleet/protocol";
import fc from "fast-check";
import { createTestDatabase } from "../../engines/db/testing/index.ts";
import { type Grant, roleOn, type Scope, visible } from "../../kernel/caller.ts";
import { list, row, sql, text } from "../../kernel/sql.ts";

const PLACES = ["a 1", "a 2", "b 3", "c 4"].map((place) => {
  const [site_id = "", fleet_id = ""] = place.split(" ");
  return { site_id, fleet_id };
});
const scope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constantFrom("a", "b", "c").map((site_id) => ({ site_id })),
  fc.constantFrom("1", "2", "3", "4").map((fleet_id) => ({ fleet_id })),
  fc.constantFrom<Scope>({}, { site_id: "a", fleet_id: "1" }),
);
const scopes = fc.array(scope, { maxLength: 3 });
const grant: fc.Arbitrary<Grant> = fc.record({ role: fc.constantFrom<Role>(...ROLES), scopes });
const caller = fc.record({ grants: fc.array(grant, { minLength: 1, maxLength: 3 }), limit: scopes });

const database = await createTestDatabase();
const db = await database.connect();
after(async () => {
  await db.close();
  await database.drop();
});

test("lists exactly the rows on which the caller has a role", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(caller, async (one) => {
      const seen = await db.many(sql(row({ site_id: text, fleet_id: text }))`
        select p.site_id, p.fleet_id
        from unnest(${list(PLACES.map(({ site_id }) => site_id))}::text[], ${list(PLACES.map(({ fleet_id }) => fleet_id))}::text[]) as p (site_id, fleet_id)
        where true ${visible(one, "p.site_id", "p.fleet_id")} order by p.fleet_id`);
      assert.deepEqual(
        seen.map((found) => ({ ...found })),
        PLACES.filter((place) => roleOn(one, place) !== undefined),
      );
      const sites = await db.many(sql(row({ site_id: text }))`
        select s.site_id from unnest(${list(["a", "b", "c"])}::text[]) as s (site_id) where true ${visible(one, "s.site_id", null)} order by s.site_id`);
      assert.deepEqual(
        sites.map(({ site_id }) => site_id),
        ["a", "b", "c"].filter((site_id) => roleOn(one, { site_id, fleet_id: null }) !== undefined),
      );
    }),
    { numRuns: 300 },
  );
});
