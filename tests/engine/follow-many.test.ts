import assert from "node:assert/strict";
import { test } from "node:test";
import { followFleet } from "../../packages/server/src/features/deployments/follow/follow.ts";
import type { Db } from "../../packages/server/src/kernel/db.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { startPlane } from "../harness/index.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };

/** Wraps a database to count its statements. */
function counting(db: Db, count: () => void): Db {
  const counted =
    <A extends unknown[], R>(ask: (...args: A) => R) =>
    (...args: A): R => {
      count();
      return ask(...args);
    };
  return {
    many: counted((statement) => db.many(statement)),
    one: counted((statement) => db.one(statement)),
    maybe: counted((statement) => db.maybe(statement)),
    run: counted((statement) => db.run(statement)),
    transaction: (work) => db.transaction((tx) => work(counting(tx, count))),
    afterCommit: (effect) => db.afterCommit(effect),
    atCommit: counted((statement) => db.atCommit(statement)),
  };
}

test("updating a thousand connecting robots takes ten SQL statements, or one if they are up to date", TIMEOUT, async (t) => {
  const ROBOTS = 1_000;
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await plane.enrollRobot({ fleet_id });
  const release = await plane.release();
  await plane.deploy(release, { fleet_id });
  await plane.settle();
  const [org_id, now] = [plane.default_org.id, plane.clock.now()];
  await plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, node_id, kinds, created_at, updated_at)
    select f.org_id, 'rob_z' || lpad(n::text, 25, '0'), 'seeded ' || n, f.site_id, f.id, decode(lpad(to_hex(n), 64, '0'), 'hex'), 'elsewhere', '["file"]', ${now}, ${now}
    from generate_series(1, ${ROBOTS}::int) n, fleet f where f.org_id = ${org_id} and f.id = ${fleet_id}`);
  const ids = Array.from({ length: ROBOTS }, (_, n) => `rob_z${String(n + 1).padStart(25, "0")}`);
  const own = plane.plane.db.forOrg(org_id);
  let statements = 0;
  const look = async (): Promise<[brought: number, statements: number, ms: number]> => {
    statements = 0;
    const began = performance.now();
    const brought = await followFleet(
      counting(own, () => (statements += 1)),
      plane.plane,
      org_id,
      ids,
    );
    return [brought, statements, Math.round(performance.now() - began)];
  };
  const [brought, needed, ms] = await look();
  assert.equal(brought, ROBOTS);
  assert.ok(needed <= 10, `${needed} statements`);
  const again = await look();
  assert.deepEqual(again.slice(0, 2), [0, 1], "running deployments are not changed");
  t.diagnostic(`${ROBOTS} robots: ${needed} statements, ${ms} ms; second check: 1 statement, ${again[2]} ms`);
});
