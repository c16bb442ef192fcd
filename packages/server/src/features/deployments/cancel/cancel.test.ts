import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { cancelDeployment } from "./cancel.ts";
import { endPendingTargets } from "./end-targets.ts";
import { Postponed } from "../reconciler.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { deleteAuthorityChange, insertAuthorityChanges, listAuthorityChanges } from "../store/authority-changes.ts";

const countRow = row({ wanted: int, late: int });

test("cancels a deployment for all robots that have not begun to install, in several chunks", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 9);
  const { db } = it.plane;
  const [id] = rig.deployment_ids;
  const left = () =>
    db.one(sql(countRow)`
      select count(*) filter (where a.target_id = t.id)::int as wanted, count(*) filter (where t.deadline_at > ${new Date(it.clock.now().getTime() + 60_000)})::int as late
      from deployment_target t join robot_app a on a.org_id = t.org_id and a.robot_id = t.robot_id where t.deployment_id = ${id}`);
  assert.deepEqual(await left(), { wanted: 9, late: 9 });
  await cancelDeployment(db.forOrg(rig.org_id), it.plane, rig.org_id, id, rig.caller.actor, { chunk: 4 });
  assert.deepEqual(await left(), { wanted: 5, late: 5 });
  const turns = [];
  while (turns.push(await endPendingTargets(db, it.plane, new Postponed(), 4)) < 10 && turns.at(-1) === true);
  assert.deepEqual(turns, [true, true, false]);
  assert.deepEqual(await left(), { wanted: 0, late: 0 });
});

test("does not delete a handled permission change that was recorded again meanwhile", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id } = await it.org();
  const db = it.plane.db.forOrg(org_id);
  const read = async () => (await listAuthorityChanges(it.plane.db, 10, []))[0];
  await insertAuthorityChanges(db, org_id, "user", ["usr_a"], new Date("2030-01-01T00:01:00Z"));
  const first = await read();
  await insertAuthorityChanges(db, org_id, "user", ["usr_a"], new Date("2030-01-01T00:00:00Z"));
  assert.equal(await deleteAuthorityChange(db, org_id, "user", "usr_a", first?.version ?? ""), 0);
  const second = await read();
  assert.equal(second?.subject_id, "usr_a");
  assert.equal(await deleteAuthorityChange(db, org_id, "user", "usr_a", second?.version ?? ""), 1);
  assert.equal(await read(), undefined);
});
