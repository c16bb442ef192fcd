import assert from "node:assert/strict";
import { test } from "node:test";
import type { Plane } from "../../../context.ts";
import { sql } from "../../../kernel/sql.ts";
import { explain } from "../../testing/explain.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { claimable, listClaimable, listDue, postponeClaimed } from "./claim.ts";

const TIMEOUT = { timeout: 120_000 };

/** Inserts a deployment with queued targets. */
async function seedDeployment({ db, id, clock }: Plane, org_id: string, targets: number, status = "in_progress"): Promise<string> {
  const deployment_id = id("dep");
  const now = clock.now();
  await db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, status, fan_out_done_at, created_by, created_at, updated_at)
    values (${org_id}, ${deployment_id}, 'release', 'fleet', ${status}, ${now}, '{}', ${now}, ${now})`);
  await db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, created_at, updated_at)
    select ${org_id}, ${deployment_id}, ${deployment_id} || n, 'release', 'rob_' || n, 'main', 'queued', ${now}, ${now}
    from generate_series(1, ${targets}::int) n`);
  return deployment_id;
}

const claimedOf = async ({ db, clock }: Plane, limit: number) =>
  Object.fromEntries(
    Array.from(
      Map.groupBy(await listClaimable(db, clock.now(), limit), ({ deployment_id }) => deployment_id),
      ([deployment_id, claimed]) => [deployment_id, claimed.length],
    ),
  );

test("divides a dispatch run between orgs and deployments, without paused and expired ones", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane, clock } = it;
  const [{ org_id: one }, { org_id: other }] = [await it.org(), await it.org()];
  await seedDeployment(plane, one, 30, "paused");
  const big = await seedDeployment(plane, one, 30);
  assert.deepEqual(await claimedOf(plane, 20), { [big]: 20 });
  const second = await seedDeployment(plane, other, 30);
  const small = await seedDeployment(plane, other, 2);
  const expired = await seedDeployment(plane, other, 2);
  await plane.db.run(sql`update deployment set expires_at = ${clock.now()} where id = ${expired}`);
  assert.deepEqual(await claimedOf(plane, 20), { [big]: 10, [second]: 5, [small]: 2 });
  assert.deepEqual(
    await claimedOf(plane, 2),
    { [big]: 1, [second]: 1 },
    "if there are more deployments than targets per run: the oldest of each org",
  );

  const ids = (await listClaimable(plane.db, clock.now(), 1_000)).flatMap((t) => (t.deployment_id === big ? [t.id] : []));
  await postponeClaimed(plane.db, one, ids, new Date(clock.now().getTime() + 60_000));
  assert.deepEqual(await claimedOf(plane, 20), { [second]: 10, [small]: 2 });
  await clock.advance({ seconds: 60 });
  assert.deepEqual(await claimedOf(plane, 20), { [big]: 10, [second]: 5, [small]: 2 });
});

test("an org with thousands of deployments leaves half of each dispatch run to another org", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane, clock } = it;
  const [{ org_id: one }, { org_id: other }] = [await it.org(), await it.org()];
  const now = clock.now();
  await plane.db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, status, fan_out_done_at, created_by, created_at, updated_at)
    select ${one}, 'dep_0' || n, 'release', 'robot', 'queued', ${now}, '{}', ${now}, ${now} from generate_series(1, 3000) n`);
  await plane.db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, created_at, updated_at)
    select org_id, id, 'tgt_' || id, 'release', 'rob_' || id, 'main', 'queued', ${now}, ${now} from deployment where org_id = ${one}`);
  const late = await seedDeployment(plane, other, 1_000);
  const claimed = await listClaimable(plane.db, now, 500);
  const of_other = claimed.filter(({ deployment_id }) => deployment_id === late);
  assert.deepEqual([of_other.length, claimed.length - of_other.length], [250, 250]);
  assert.ok(claimed.every(({ has_more, org_id }) => org_id === other || has_more));
  await plane.db.run(sql`insert into deployment_due (org_id, id, due_at) select org_id, id, ${now} from deployment`);
  const due = await listDue(plane.db, now, 100, []);
  assert.deepEqual(
    [
      due.length,
      due
        .slice(0, 2)
        .map(({ org_id }) => org_id)
        .toSorted(),
    ],
    [100, [one, other].toSorted()],
  );
  assert.equal((await listDue(plane.db, now, 100, [late])).filter(({ org_id }) => org_id === other).length, 0);
});

test("paused targets at the head of the queue do not slow down a dispatch run", TIMEOUT, async (t) => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const { org_id } = await it.org();
  const size = 10_000;
  await seedDeployment(plane, org_id, size, "paused");
  const going = await seedDeployment(plane, org_id, size);
  assert.deepEqual(await claimedOf(plane, 500), { [going]: 500 });
  const explained = await explain(plane.db, (db) => db.many(claimable(plane.clock.now(), 500)));
  t.diagnostic(`${size} paused and ${size} others: ${explained.ms} ms, ${explained.rows} rows`);
  assert.ok(explained.rows < 2_000);
});

test("claiming due deployments does not read deployments that are not due", TIMEOUT, async (t) => {
  await using it = await startFeaturePlane([]);
  const { db, clock } = it.plane;
  const { org_id } = await it.org();
  const now = clock.now();
  await db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, status, fan_out_done_at, created_by, created_at, updated_at)
    select ${org_id}, 'dep_' || n, 'release', 'robot', 'applied', ${now}, '{}', ${now}, ${now} from generate_series(1, 10000) n`);
  await db.run(sql`insert into deployment_due (org_id, id, due_at) select ${org_id}, 'dep_' || n, ${now} from generate_series(1, 2000) n`);
  await db.run(sql`analyze deployment`);
  await db.run(sql`analyze deployment_due`);
  const explained = await explain(db, (reading) => listDue(reading, now, 100, []));
  t.diagnostic(`2,000 due of 10,000: ${explained.ms} ms, ${explained.rows} rows`);
  assert.ok(explained.rows < 1_000, `${explained.rows} rows`);
});
