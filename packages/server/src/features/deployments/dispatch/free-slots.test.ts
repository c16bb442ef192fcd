import assert from "node:assert/strict";
import { test } from "node:test";
import { bool, row, sql } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { lockDeployments } from "../store/deployments.ts";
import { freeSlots } from "../transition.ts";

const waitsRow = row({ waits: bool });

test("max_unavailable is evaluated immediately in a small fleet, and once a second in a large one", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { plane, clock } = it;
  const { org_id } = await it.org();
  const now = clock.now();
  await plane.db.run(sql`insert into site (org_id, id, name, created_at, updated_at) values (${org_id}, 'site_1', 's', ${now}, ${now})`);
  await plane.db.run(
    sql`insert into fleet (org_id, id, site_id, name, created_at, updated_at) values (${org_id}, 'fleet_1', 'site_1', 'f', ${now}, ${now})`,
  );
  await plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    values (${org_id}, 'rob_1', 'r', 'site_1', 'fleet_1', ${Buffer.alloc(32)}, ${now}, ${now})`);
  await plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, fleet_id, rollout, status, fan_out_done_at, count_total, count_queued, created_by, created_at, updated_at)
    values (${org_id}, 'dep_1', 'release', 'fleet', 'fleet_1', '{"max_unavailable":{"count":1}}', 'in_progress', ${now}, 100000, 1, '{}', ${now}, ${now})`);
  await plane.db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, waiting_for, created_at, updated_at)
    values (${org_id}, 'dep_1', 'tgt_1', 'release', 'rob_1', 'main', 'queued', 'slot', ${now}, ${now})`);
  const free = () =>
    plane.db.forOrg(org_id).transaction(async (tx) => {
      const [deployment] = await lockDeployments(tx, org_id, ["dep_1"]);
      assert.ok(deployment);
      await freeSlots(tx, plane, deployment);
      const { waits } = await tx.one(
        sql(waitsRow)`select waiting_for is not null as waits from deployment_target where org_id = ${org_id} and id = 'tgt_1'`,
      );
      return { waits, step_at: (await lockDeployments(tx, org_id, ["dep_1"]))[0]?.step_at ?? null };
    });
  const soon = new Date(now.getTime() + 1_000);
  assert.deepEqual(await free(), { waits: true, step_at: soon });
  await clock.advance({ seconds: 0.5 });
  assert.deepEqual(await free(), { waits: true, step_at: soon }, "further ends do not postpone it");
  await plane.db.run(sql`update deployment set count_total = 5000 where org_id = ${org_id}`);
  assert.deepEqual(await free(), { waits: false, step_at: soon });
});
