import assert from "node:assert/strict";
import { test } from "node:test";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { getDeploymentRow } from "../store/deployments.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { createDeployment } from "./create.ts";
import { releaseDue } from "./schedule.ts";

/** Calls `before` with the number of each transaction in an org, counted from 1, before it begins. */
function watched(db: SystemDb, before: (transaction: number) => Promise<void>): SystemDb {
  let transactions = 0;
  const wrap = (inner: Db): Db => ({
    many: (statement) => inner.many(statement),
    one: (statement) => inner.one(statement),
    maybe: (statement) => inner.maybe(statement),
    run: (statement) => inner.run(statement),
    atCommit: (statement) => inner.atCommit(statement),
    afterCommit: (effect) => inner.afterCommit(effect),
    transaction: async (work) => {
      await before((transactions += 1));
      return inner.transaction(work);
    },
  });
  return { ...wrap(db), forOrg: (org_id) => wrap(db.forOrg(org_id)) };
}

test("keeps the order of due deployments that two nodes start at the same time", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane, clock } = it;
  const org = plane.db.forOrg(org_id);
  const ids: string[] = [];
  for (const minute of ["01", "02"]) {
    // Limited, so that each is started in a separate transaction.
    const rollout = { max_parallel: 1 };
    const scheduled_at = `2030-01-01T00:${minute}:00Z`;
    const body = { release: release_id, robot_id: robot_ids[0] ?? "", rollout, scheduled_at };
    ids.push((await createDeployment(org, plane, caller, body)).row.id);
  }
  await clock.advance({ minutes: 3 });
  // The other node draws numbers after this one. It starts the first deployment, and fails before the second.
  const other = watched(plane.db, (transaction) =>
    transaction === 3 ? Promise.reject(new Error("planned: the node fails")) : Promise.resolve(),
  );
  const node = watched(plane.db, async (transaction) => {
    if (transaction === 1) await releaseDue(other, plane);
  });
  await releaseDue(node, plane);
  const rows = await Promise.all(ids.map((id) => getDeploymentRow(org, org_id, "release", id)));
  assert.deepEqual(
    rows.map((row) => row?.status),
    ["queued", "queued"],
  );
  const [first, second] = rows.map((row) => row?.order_number ?? 0);
  assert.ok((first ?? 0) < (second ?? 0), `${first} is started before ${second}`);
});
