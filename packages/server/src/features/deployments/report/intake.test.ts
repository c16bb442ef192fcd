import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportBody } from "@roamfleet/protocol/link";
import type { Session } from "../../../link/index.ts";
import { int, row, sql, text } from "../../../kernel/sql.ts";
import { type FeaturePlane, startFeaturePlane } from "../../testing/feature-plane.ts";
import { ReportIntake } from "./intake.ts";
import { type ReportRig, startReportRig } from "../testing/report-rig.ts";

const TIMEOUT = { timeout: 120_000 };

/** Creates the links of a rig's robots. `acked` lists the acknowledged reports in order. */
function links(it: FeaturePlane, rig: ReportRig) {
  const intake = new ReportIntake(it.plane);
  const acked: string[] = [];
  const take = (robot: number, seq: number, body: ReportBody): Promise<void> => {
    const session = {
      org_id: rig.org_id,
      robot_id: rig.robot_ids[robot],
      hello: { outbox_id: "outbox" },
      send: (message: { seq: number }) => acked.push(`${robot}: ${message.seq}`) > 0,
    } as unknown as Session;
    return intake.take(session, { type: "report", seq, at: "", body });
  };
  return { intake, take, acked };
}

const countRow = row({ status: text, count: int });
const statuses = async ({ plane }: FeaturePlane, deployment_id: string): Promise<Record<string, number>> =>
  Object.fromEntries(
    (
      await plane.db.many(
        sql(countRow)`select status, count(*)::int as count from deployment_target where deployment_id = ${deployment_id} group by status`,
      )
    ).map(({ status, count }) => [status, count]),
  );
const batchesOf = async ({ plane }: FeaturePlane): Promise<number> => (await plane.metrics.report_batches.get()).values[0]?.value ?? 0;

test("stores reports that arrive during a write in one further transaction", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 30);
  const { take, acked, intake } = links(it, rig);
  await Promise.all(rig.robot_ids.map((_, robot) => take(robot, 1, rig.about(robot, 0, { status: "downloading", attempt: 1 }))));
  await intake.settled();
  assert.equal(acked.length, 30);
  assert.deepEqual(await statuses(it, rig.deployment_ids[0]), { downloading: 30 });
  assert.equal(await batchesOf(it), 2);
});

test("refuses a report that cannot be stored without affecting the others of its batch", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 12);
  const { take, acked } = links(it, rig);
  const BEYOND_INTEGER = 2 ** 40;
  const ended = await Promise.allSettled(
    rig.robot_ids.map((_, robot) => take(robot, 1, robot === 7 ? rig.file(BEYOND_INTEGER) : rig.file())),
  );
  assert.deepEqual(
    ended.flatMap(({ status }, robot) => (status === "rejected" ? [robot] : [])),
    [7],
  );
  assert.equal(acked.length, 11);
  assert.deepEqual(await statuses(it, rig.deployment_ids[1]), { applied: 11, dispatched: 1 });
  await take(7, 1, rig.file());
  assert.deepEqual(await statuses(it, rig.deployment_ids[1]), { applied: 12 }, "its outbox position was not advanced");
});

test("a locked deployment does not delay reports about other deployments", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 3);
  const { take, acked, intake } = links(it, rig);
  const [held, free] = rig.deployment_ids;
  let waiting: Promise<unknown> = Promise.resolve();
  await it.plane.db.transaction(async (tx) => {
    await tx.run(sql`select from deployment where id = ${held} for update`);
    waiting = Promise.all([0, 1].map((robot) => take(robot, 1, rig.about(robot, 0, { status: "downloading", attempt: 1 }))));
    await take(2, 1, rig.about(2, 1, { status: "failed", attempt: 1 }));
    assert.deepEqual(acked, ["2: 1"]);
  });
  await waiting;
  await intake.settled();
  assert.deepEqual(await statuses(it, held), { dispatched: 1, downloading: 2 });
  assert.deepEqual(await statuses(it, free), { dispatched: 2, failed: 1 });
});

test("a report that arrives on two links of a robot is stored once and acknowledged on both", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 2);
  const { take, acked } = links(it, rig);
  const body = rig.about(0, 0, { status: "downloading", attempt: 1 });
  await Promise.all([take(1, 1, rig.about(1, 0, { status: "downloading", attempt: 1 })), take(0, 1, body), take(0, 1, body)]);
  assert.deepEqual(acked.toSorted(), ["0: 1", "0: 1", "1: 1"]);
  assert.deepEqual(await statuses(it, rig.deployment_ids[0]), { downloading: 2 });
  const { count } = await it.plane.db.one(
    sql(row({ count: int }))`select count(*)::int as count from deployment_event where kind = 'target.downloading'`,
  );
  assert.equal(count, 2);
});
