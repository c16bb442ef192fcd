import assert from "node:assert/strict";
import { test } from "node:test";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { cancelDeployment } from "./cancel/cancel.ts";
import { endLateSteps, endPendingTargets } from "./cancel/end-targets.ts";
import { createDeployment } from "./create/create.ts";
import { advanceDeployments } from "./create/fan-out.ts";
import { dispatchQueued } from "./dispatch/dispatch.ts";
import { Postponed } from "./reconciler.ts";
import { takeReports } from "./report/report.ts";
import { rollBackDeployment } from "./rollback/rollback.ts";
import { startReportRig } from "./testing/report-rig.ts";

/** Tables in the order in which transactions lock their rows. The last two, a robot's apps and configs, may be in either order. */
const ORDER = ["deployment", "deployment_target", "robot", "robot_desired", "robot_app", "robot_config"] as const;
type Locked = (typeof ORDER)[number];

const TABLE = /(?:\bfrom|\bjoin|\bupdate|\binsert into|\bdelete from) ([a-z_]+)/g;

/** Returns the table of ORDER whose existing rows the statement locks, if any. */
function lockedBy(text: string): Locked | undefined {
  const flat = text.replaceAll(/--[^\n]*\n/g, "").replaceAll(/\s+/g, " ");
  const written = /\b(?:update|insert into|delete from) ([a-z_]+)/.exec(flat.replaceAll(/for (?:no key )?update|do update/g, ""))?.[1];
  const table = /for (?:update|share)/.test(flat)
    ? [...flat.matchAll(TABLE)].find(([, name]) => (ORDER as readonly string[]).includes(name ?? ""))?.[1]
    : written;
  return ORDER.find((name) => name === table);
}

/** Records, for each transaction, the order in which it first locks rows of each table. */
function recording(db: SystemDb): { db: SystemDb; transactions: Locked[][] } {
  const transactions: Locked[][] = [];
  const wrap = (inner: Db, order: Locked[] | undefined): Db => {
    const note = <S extends { text: string }>(statement: S): S => {
      const table = lockedBy(statement.text);
      if (order !== undefined && table !== undefined && !order.includes(table)) order.push(table);
      return statement;
    };
    return {
      many: (statement) => inner.many(note(statement)),
      one: (statement) => inner.one(note(statement)),
      maybe: (statement) => inner.maybe(note(statement)),
      run: (statement) => inner.run(note(statement)),
      atCommit: (statement) => inner.atCommit(note(statement)),
      afterCommit: (effect) => inner.afterCommit(effect),
      transaction: (work) =>
        inner.transaction((tx) => {
          if (order !== undefined) return work(wrap(tx, order));
          const own: Locked[] = [];
          transactions.push(own);
          return work(wrap(tx, own));
        }),
    };
  };
  return { db: { ...wrap(db, undefined), forOrg: (org_id) => wrap(db.forOrg(org_id), undefined) }, transactions };
}

test("every deployment transaction locks rows in the documented order", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 4);
  const { plane, clock } = it;
  const { db, transactions } = recording(plane.db);
  const { org_id, caller } = rig;
  const org = db.forOrg(org_id);
  const postponed = new Postponed();
  const work = async () => {
    await advanceDeployments(db, plane, postponed);
    await dispatchQueued(db, plane, postponed);
    await endPendingTargets(db, plane, postponed);
    await endLateSteps(db, plane, postponed);
  };
  const reports = [
    rig.report(0, 1, rig.about(0, 0, { attempt: 1, status: "applied" })),
    rig.report(1, 1, rig.about(1, 0, { attempt: 1, status: "installing" })),
    rig.report(2, 1, rig.about(2, 0, { attempt: 1, status: "failed", reason: "health_check_failed" })),
    rig.report(3, 1, rig.file()),
  ];
  await takeReports(org, plane, org_id, reports);
  await rollBackDeployment(org, plane, caller, rig.deployment_ids[0], 1);
  await cancelDeployment(org, plane, org_id, rig.deployment_ids[1], caller.actor, { chunk: 1, kind: "config" });
  await work();
  await plane.db.run(sql`update robot set node_id = null where org_id = ${org_id} and id = ${rig.robot_ids[3] ?? ""}`);
  const again = await createDeployment(org, plane, caller, { release: rig.release_id, robot_id: rig.robot_ids[2] ?? "" });
  await work();
  await clock.advance({ minutes: 30 });
  await work();
  await plane.db.run(sql`update deployment set expires_at = ${clock.now()} where org_id = ${org_id} and id = ${again.row.id}`);
  await work();
  const orders = new Set(transactions.filter((order) => order.length > 1).map((order) => order.join(" → ")));
  for (const order of orders) {
    const locked = order.split(" → ") as Locked[];
    if (locked.includes("deployment_target")) assert.equal(locked[0], "deployment", order);
    // Reports lock robots' rows before targets. This cannot deadlock, because they have locked the deployments of these targets first.
    const others: readonly Locked[] = locked.filter((name) => name !== "deployment_target");
    const ranks = others.map((name) => Math.min(ORDER.indexOf(name), ORDER.indexOf("robot_app")));
    assert.deepEqual(ranks, ranks.toSorted(), order);
  }
  assert.ok(
    [...orders].some((order) => order.includes("robot_app")),
    "robots were changed",
  );
  assert.ok(orders.size >= 4, [...orders].join("\n"));
});
