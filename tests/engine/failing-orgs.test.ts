import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 240_000 };

test("failing deployments of ten orgs are retried with backoff and do not delay another org's deployment", TIMEOUT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const robots = await plane.enrollRobots(3);
  const fleet_id = await plane.homeFleet();
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.id like 'dep_bad%' then raise exception 'planned: this item fails'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment for each row execute function test_fault()`);
  const now = plane.clock.now();
  for (let number = 0; number < 10; number += 1) {
    const { id: org_id } = await plane.org();
    for (const [kind, done_at] of [
      ["fan_out", null],
      ["step", now],
    ] as const)
      await plane.db.run(sql`
        insert into deployment (org_id, id, kind, target_kind, fleet_id, app, status, fan_out_at, fan_out_done_at, step_at, expires_at, created_by, created_at, updated_at)
        values (${org_id}, ${`dep_bad_${kind}_${number}`}, 'release', 'fleet', 'fleet_none', 'main', 'in_progress', ${now}, ${done_at}, ${done_at}, ${now}::timestamptz + interval '7 days', '{"type":"system","id":null,"name":null}', ${now}, ${now})`);
  }
  await plane.advance({ seconds: 30 });
  const release = await plane.release();
  // Use waves and max_parallel, because only deployments with these need the rollout loop.
  const { id } = await plane.deploy(release, { fleet_id }, { rollout: { waves: [{ count: 1, soak_seconds: 10 }], max_parallel: 1 } });
  await plane.advance({ minutes: 3 });
  assert.equal((await plane.deployment(id)).status, "applied");
  for (const robot of robots) assert.equal(robot.runs(), release.tag);
  const logged = plane.logged.filter(({ msg }) => msg === "a background task failed for one item").length;
  assert.ok(logged >= 2 && logged <= 10, `${logged} lines in 3.5 minutes of 20 failing items in two loops`);
  await plane.db.run(sql`delete from deployment where id like 'dep_bad%'`);
  await checkEngine(plane, { ended: true });
});
