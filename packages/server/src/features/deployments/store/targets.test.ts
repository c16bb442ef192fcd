import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../../kernel/sql.ts";
import { explain } from "../../testing/explain.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { listOpenTargets, setWaitingFor } from "./targets.ts";

const TARGETS = 20_000;
const BATCH = 500;

test(
  "dispatching a batch reads only the targets of the batch, even if the statistics of PostgreSQL are outdated",
  { timeout: 120_000 },
  async (t) => {
    await using it = await startFeaturePlane([]);
    const { db, clock } = it.plane;
    const { org_id } = await it.org();
    const tenant = db.forOrg(org_id);
    const now = clock.now();
    await db.run(sql`analyze deployment_target`);
    await db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, status, fan_out_done_at, order_number, created_by, created_at, updated_at)
    select ${org_id}, 'dep_' || n, 'release', 'selection', 'in_progress', ${now}, n, '{}', ${now}, ${now} from generate_series(1, 2) n`);
    await db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, created_at, updated_at)
    select ${org_id}, d.id, 'tgt_' || d.id || lpad(n::text, 6, '0'), 'release', 'rob_' || lpad(n::text, 6, '0'), 'main', 'queued', ${now}, ${now}
    from deployment d, generate_series(1, ${TARGETS}::int) n`);
    const numbers = Array.from({ length: BATCH }, (_, i) => String(7_000 + i).padStart(6, "0"));
    const robots = numbers.map((n) => `rob_${n}`);
    const own = numbers.map((n) => `tgt_dep_2${n}`);

    const others = await listOpenTargets(tenant, org_id, robots, own);
    assert.deepEqual(
      others.map(({ id, order_number }) => [id, order_number]).toSorted(),
      numbers.map((n) => [`tgt_dep_1${n}`, 1]),
    );
    const listed = await explain(tenant, (reading) => listOpenTargets(reading, org_id, robots, own));
    const changed = await explain(tenant, (writing) => setWaitingFor(writing, org_id, own, "robot_online"));
    t.diagnostic(
      `${BATCH} of ${TARGETS}: listed with ${listed.rows} rows in ${listed.ms} ms, changed with ${changed.rows} in ${changed.ms} ms`,
    );
    assert.ok(listed.rows < 4 * BATCH, `${listed.rows} rows`);
    assert.ok(changed.rows < 4 * BATCH, `${changed.rows} rows`);
    const waiting = await db.run(
      sql`select from deployment_target where waiting_for = 'robot_online' and id = any(${sql`array[${own[0] ?? ""}, ${own.at(-1) ?? ""}]`})`,
    );
    assert.equal(waiting, 2);
  },
);
