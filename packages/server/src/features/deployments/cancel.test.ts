import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { cancelDeployment, continueCancellations } from "./cancel.ts";
import { startReportRig } from "./testing/report-rig.ts";

const countRow = row({ wanted: int, late: int });

test("cancelling a deployment larger than a chunk stops every robot that has not begun to install", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 9);
  const { db } = it.plane;
  const [id] = rig.deployment_ids;
  const left = () =>
    db.one(sql(countRow)`
      select count(*) filter (where a.target_id = t.id)::int as wanted, count(*) filter (where t.deadline_at > ${new Date(it.clock.now().getTime() + 60_000)})::int as late
      from deployment_target t join robot_app a on a.org_id = t.org_id and a.robot_id = t.robot_id where t.deployment_id = ${id}`);
  assert.deepEqual(await left(), { wanted: 9, late: 9 });
  await cancelDeployment(db.forOrg(rig.org_id), it.plane, rig.org_id, id, rig.caller.actor, 4);
  assert.deepEqual(await left(), { wanted: 5, late: 5 });
  const turns = [];
  while (turns.push(await continueCancellations(db, it.plane, 4)) < 10 && turns.at(-1) === true);
  assert.deepEqual(turns, [true, true, false]);
  assert.deepEqual(await left(), { wanted: 0, late: 0 });
});
