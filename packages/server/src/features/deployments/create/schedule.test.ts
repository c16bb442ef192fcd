import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { row, sql, text } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { listDue } from "../store/claim.ts";
import { getDeploymentRow } from "../store/deployments.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { createDeployment } from "./create.ts";
import { releaseDue } from "./schedule.ts";

interface Hooks {
  /** Called with the number of each transaction in an org, counted from 1, before it begins. */
  before?: (transaction: number) => Promise<void>;
  /** Called after due deployments were listed. */
  listed?: () => void;
  /** Called within a transaction after it has taken deployments off the schedule. */
  taken?: () => Promise<void>;
}

function watched(db: SystemDb, { before, listed, taken }: Hooks): SystemDb {
  let transactions = 0;
  const wrap = (inner: Db): Db => ({
    many: async (statement) => {
      const rows = await inner.many(statement);
      if (statement.text.includes("with recursive due_org")) listed?.();
      if (statement.text.includes("delete from deployment_due")) await taken?.();
      return rows;
    },
    one: (statement) => inner.one(statement),
    maybe: (statement) => inner.maybe(statement),
    run: (statement) => inner.run(statement),
    atCommit: (statement) => inner.atCommit(statement),
    afterCommit: (effect) => inner.afterCommit(effect),
    transaction: async (work) => {
      await before?.((transactions += 1));
      return inner.transaction((tx) => work(wrap(tx)));
    },
  });
  return { ...wrap(db), forOrg: (org_id) => wrap(db.forOrg(org_id)) };
}

test("keeps the order of scheduled deployments that two nodes start concurrently", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane, clock } = it;
  const org = plane.db.forOrg(org_id);
  const ids: string[] = [];
  for (const minute of ["01", "02"]) {
    // Deployments with a limit are started in separate transactions.
    const rollout = { max_parallel: 1 };
    const scheduled_at = `2030-01-01T00:${minute}:00Z`;
    const body = { release: release_id, robot_id: robot_ids[0] ?? "", rollout, scheduled_at };
    ids.push((await createDeployment(org, plane, caller, body)).row.id);
  }
  await clock.advance({ minutes: 3 });
  // The other node draws its order numbers after this node has drawn its own. It starts the first deployment and fails before the second.
  const other = watched(plane.db, {
    before: (transaction) => (transaction === 2 ? Promise.reject(new Error("planned: the node fails")) : Promise.resolve()),
  });
  const node = watched(plane.db, {
    before: async (transaction) => {
      if (transaction === 1) await releaseDue(other, plane);
    },
  });
  await releaseDue(node, plane);
  const rows = await Promise.all(ids.map((id) => getDeploymentRow(org, org_id, "release", id)));
  assert.deepEqual(
    rows.map((one) => one?.status),
    ["queued", "queued"],
  );
  const [first, second] = rows.map((one) => one?.order_number ?? 0);
  assert.ok((first ?? 0) < (second ?? 0), `${first} is started before ${second}`);
});

test("orders scheduled deployments by start time even if some of them start in a batch", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane, clock } = it;
  const org = plane.db.forOrg(org_id);
  const { fleet_id } = await plane.db.one(sql(row({ fleet_id: text }))`select fleet_id from robot where org_id = ${org_id}`);
  const robot_id = robot_ids[0] ?? "";
  const ids: string[] = [];
  for (const [minute, what] of [{ fleet_id }, { robot_id }, { robot_id, rollout: { max_parallel: 1 } }, { robot_id }].entries()) {
    const body = { release: release_id, ...what, scheduled_at: `2030-01-01T00:0${minute + 1}:00Z` };
    ids.push((await createDeployment(org, plane, caller, body)).row.id);
  }
  await clock.advance({ minutes: 5 });
  await releaseDue(plane.db, plane);
  const rows = await Promise.all(ids.map((id) => getDeploymentRow(org, org_id, "release", id)));
  assert.ok(rows.every((one) => one?.fan_out_done_at !== null));
  const numbers = rows.map((one) => one?.order_number ?? 0);
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  );
});

test("the later scheduled deployment wins if another node starts it while the earlier one is starting", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane, clock } = it;
  const org = plane.db.forOrg(org_id);
  await plane.db.run(sql`
    insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
    select org_id, 'rel_second', 'second', kind, 'second', artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at
    from release where org_id = ${org_id} and id = ${release_id}`);
  const ids: string[] = [];
  for (const minute of ["01", "02"]) {
    const body = { release: "rel_second", robot_id: robot_ids[0] ?? "", scheduled_at: `2030-01-01T00:${minute}:00Z` };
    ids.push((await createDeployment(org, plane, caller, body)).row.id);
  }
  await clock.advance({ seconds: 90 });
  // The other node's clock is ahead, so that both deployments are due for it.
  const other = { ...plane, clock: new SimulatedClock({ at: "2030-01-01T00:03:00Z" }) };
  await releaseDue(watched(plane.db, { taken: async () => void (await releaseDue(plane.db, other)) }), plane);
  const rows = await Promise.all(ids.map((id) => getDeploymentRow(org, org_id, "release", id)));
  assert.deepEqual(
    rows.map((one) => [one?.status, one?.reason]),
    [
      ["cancelled", "superseded"],
      ["in_progress", null],
    ],
  );
});

/** A deployment to a fleet and then one to its robot, both due at the same time. */
async function fleetThenRobot() {
  const it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane, clock } = it;
  const org = plane.db.forOrg(org_id);
  const { fleet_id } = await plane.db.one(sql(row({ fleet_id: text }))`select fleet_id from robot where org_id = ${org_id}`);
  const ids: string[] = [];
  for (const what of [{ fleet_id }, { robot_id: robot_ids[0] ?? "" }]) {
    const body = { release: release_id, ...what, scheduled_at: "2030-01-01T00:01:00Z" };
    ids.push((await createDeployment(org, plane, caller, body)).row.id);
  }
  await clock.advance({ minutes: 2 });
  const assertInOrder = async () => {
    const rows = await Promise.all(ids.map((id) => getDeploymentRow(org, org_id, "release", id)));
    assert.ok(rows.every((one) => one?.fan_out_done_at !== null));
    const [fleet, robot] = rows.map((one) => one?.order_number ?? 0);
    assert.ok((fleet ?? 0) < (robot ?? 0), `the fleet's ${fleet} is before the robot's ${robot}`);
  };
  return { it, plane, ids, assertInOrder };
}

test("keeps the order of a fleet's and a robot's deployment if another node lists only one of them", { timeout: 120_000 }, async () => {
  const { it, plane, ids, assertInOrder } = await fleetThenRobot();
  await using _ = it;
  const [locked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // The other node lists the fleet's deployment at the same moment as this node.
  const other = plane.db.transaction(async (tx) => {
    const due = await listDue(tx, it.clock.now(), 1, []);
    assert.deepEqual(
      due.map(({ id }) => id),
      ids.slice(0, 1),
    );
    locked.resolve();
    await released.promise;
  });
  await locked.promise;
  await releaseDue(watched(plane.db, { listed: released.resolve }), plane);
  await other;
  await releaseDue(plane.db, plane);
  await assertInOrder();
});

test("keeps the order of a fleet's and a robot's deployment if another node starts the second", { timeout: 120_000 }, async () => {
  const { it, plane, assertInOrder } = await fleetThenRobot();
  await using _ = it;
  const node = watched(plane.db, {
    before: async (transaction) => {
      if (transaction === 2) await releaseDue(plane.db, plane);
    },
  });
  await releaseDue(node, plane);
  await assertInOrder();
});
