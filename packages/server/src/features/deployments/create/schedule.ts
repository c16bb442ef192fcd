import { isConnectionLost } from "../../../engines/db/index.ts";
import { SYSTEM } from "../../../kernel/caller.ts";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { parseTime } from "../../../kernel/time.ts";
import { endScheduledIfDenied } from "../cancel/authority-changes.ts";
import { dispatchLocked, type Pair } from "../dispatch/dispatch.ts";
import { isLimited } from "../dispatch/slots.ts";
import { Postponed, processEach } from "../reconciler.ts";
import { mayDispatch } from "../state.ts";
import { type Due, listDue } from "../store/claim.ts";
import { drawOrderNumbers, lockDeployments, nextOrderNumbers, postponeDue, takeDue } from "../store/deployments.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { listOpenTargets } from "../store/targets.ts";
import { type CreateContext, HINT_DISPATCH, moveDeployment } from "../transition.ts";
import { beginFanOut, expiresAt, sourceOf, targetOf } from "./fan-out.ts";

const DUE_PER_RUN = 400;
/** Deployments per transaction. Few, so that other transactions wait only briefly for their rows. */
const BATCH_DEPLOYMENTS_MAX = 100;
/** Concurrent transactions per org: the server prepares one while PostgreSQL writes the other. */
const BATCHES_AT_ONCE = 2;
/** How long a deployment that could not start is postponed. Deployments that are due earlier start before it. */
const FAILED_AGAIN_MS = 5_000;

/**
 * Background: starts scheduled deployments that are due. Thousands may be due at one moment, so deployments to one robot each are started
 * and dispatched in batches, one transaction per batch. The others start one by one, and create their targets first. The transaction that
 * starts a deployment also deletes its schedule row, so each is started once even if a process crashes. Returns true if there may be more.
 */
export async function releaseDue(db: SystemDb, engine: CreateContext, postponed = new Postponed()): Promise<boolean> {
  const now = engine.clock.now();
  const due = await listDue(db, now, DUE_PER_RUN, postponed.ids(now));
  let failed = 0;
  for (const [org_id, own] of Map.groupBy(due, (one) => one.org_id)) {
    const org = db.forOrg(org_id);
    const simple = own.filter(isForOneRobot);
    const others = own.filter((one) => !isForOneRobot(one));
    // The deployments that start separately may include robots of the batches, so store the order of all deployments before any of them
    // starts.
    const is_ordered = others.length > 0 && (await storeOrder(org, org_id, own));
    const can_batch = others.length === 0 || is_ordered;
    const remaining = can_batch ? [...others, ...(await startInBatches(org, engine, org_id, simple, is_ordered))] : own;
    const numbered = others.length > 0 ? is_ordered : await storeOrder(org, org_id, remaining);
    // A failing deployment is postponed in its row. If even that write fails, it is postponed in memory.
    await processEach(engine, postponed, remaining, async (item) => {
      try {
        if (!numbered) await drawOrderNumbers(org, org_id, [item.id]);
        await releaseOne(org, engine, item);
      } catch (error) {
        if (isConnectionLost(error)) throw error;
        failed += 1;
        // Log once per run: one cause may break hundreds.
        if (failed === 1) engine.log.error({ err: error, org_id, deployment_id: item.id }, "a scheduled deployment could not be started");
        await postponeDue(org, org_id, item.id, new Date(engine.clock.now().getTime() + FAILED_AGAIN_MS));
      }
    });
  }
  return due.length === DUE_PER_RUN;
}

/**
 * Stores the order numbers of deployments that start in several transactions. If that fails, returns false, and each draws its own number.
 */
async function storeOrder(org: Db, org_id: string, due: readonly Due[]): Promise<boolean> {
  if (due.length === 0) return true;
  const ids = due.map(({ id }) => id);
  return drawOrderNumbers(org, org_id, ids).then(
    () => true,
    (error: unknown) => {
      if (isConnectionLost(error)) throw error;
      return false;
    },
  );
}

/**
 * Starts deployments to one robot each, in batches. Returns the ones that must start separately, because they changed or their batch
 * failed.
 */
async function startInBatches(org: Db, engine: CreateContext, org_id: string, due: readonly Due[], is_ordered: boolean): Promise<Due[]> {
  const batches = batchesOf(due);
  const remaining: Due[] = [];
  const worker = async (): Promise<void> => {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      const some = batch;
      const left = await startForRobots(org, engine, org_id, some, is_ordered).catch((error: unknown) => {
        if (isConnectionLost(error)) throw error;
        return some;
      });
      remaining.push(...left);
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: BATCHES_AT_ONCE }, worker));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  return remaining;
}

/**
 * Groups due deployments into batches. All deployments to one robot are in the same batch, because concurrent batches draw order numbers in
 * an arbitrary order.
 */
function batchesOf(due: readonly Due[]): Due[][] {
  const batches: Due[][] = [];
  for (const own of Map.groupBy(due, ({ robot_id, id }) => robot_id ?? id).values()) {
    const last = batches.at(-1);
    if (last === undefined || last.length + own.length > BATCH_DEPLOYMENTS_MAX) batches.push([...own]);
    else last.push(...own);
  }
  return batches;
}

/**
 * Starts and dispatches deployments to one robot each. Draws new order numbers unless `is_ordered`. Returns the deployments that are no
 * longer scheduled.
 */
function startForRobots(db: Db, engine: CreateContext, org_id: string, due: readonly Due[], is_ordered: boolean): Promise<Due[]> {
  return db.transaction(async (tx) => {
    const now = engine.clock.now();
    // A deployment that starts may supersede targets of other deployments. Lock all of them in one statement, ordered by id, so that
    // transactions cannot deadlock.
    const rivals = await listRivals(tx, org_id, due);
    const locked = await lockDeployments(tx, org_id, [...new Set([...due, ...rivals].map(({ id }) => id))]);
    const due_ids = new Set(due.map(({ id }) => id));
    const simple = locked.filter((row) => due_ids.has(row.id) && row.status === "scheduled");
    const simple_ids = simple.map(({ id }) => id);
    // Draw the numbers before deleting the schedule rows: a node that no longer finds these rows then draws later numbers.
    const ordered = is_ordered ? simple : await drawOrder(tx, simple);
    const taken = new Set((await takeDue(tx, org_id, simple_ids, now)).map(({ id }) => id));
    const pairs = await begin(
      tx,
      engine,
      org_id,
      ordered.filter(({ id }) => taken.has(id)),
    );
    const deployments = new Map([...locked, ...pairs.map(({ deployment }) => deployment)].map((row) => [row.id, row]));
    const targets = pairs.map(({ target }) => target);
    const of_robot = Map.groupBy(targets, ({ robot_id }) => robot_id);
    // If several of these targets are for the same robot, only store them now. The dispatch loop chooses the newest afterwards.
    const ready = pairs.filter(({ target, deployment }) => of_robot.get(target.robot_id)?.length === 1 && mayDispatch(deployment, now));
    if (pairs.length > 0) await dispatchLocked(tx, engine, org_id, deployments, ready, targets);
    if (ready.length < pairs.length) tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
    return due.filter(({ id }) => !simple_ids.includes(id));
  });
}

/** Returns the deployments that have an open target for the same robot and app as one of `due`. */
async function listRivals(tx: Db, org_id: string, due: readonly Due[]): Promise<{ id: string }[]> {
  const apps = new Map(
    due.flatMap(({ robot_id, app }) => (robot_id === null ? [] : [[`${robot_id} ${app ?? "main"}`, robot_id] as const])),
  );
  const open = await listOpenTargets(tx, org_id, [...apps.values()], []);
  return open.flatMap(({ deployment_id, kind, robot_id, subject }) =>
    kind === "release" && apps.has(`${robot_id} ${subject}`) ? [{ id: deployment_id }] : [],
  );
}

/** Returns these deployments with new order numbers, in the order of their start times, then of their creation. */
async function drawOrder(tx: Db, rows: readonly DeploymentRow[]): Promise<DeploymentRow[]> {
  const in_order = rows.toSorted(
    (a, b) => (a.scheduled_at?.getTime() ?? 0) - (b.scheduled_at?.getTime() ?? 0) || a.order_number - b.order_number,
  );
  const in_order_ids = in_order.map(({ id }) => id);
  const numbers = new Map((await nextOrderNumbers(tx, in_order_ids)).map(({ id, order_number }) => [id, order_number]));
  return in_order.map((row) => ({ ...row, order_number: numbers.get(row.id) ?? row.order_number }));
}

/** Builds the rows of deployments that start now, and of their targets. The caller stores them. */
async function begin(tx: Db, engine: CreateContext, org_id: string, rows: readonly DeploymentRow[]): Promise<Pair[]> {
  if (rows.length === 0) return [];
  const now = engine.clock.now();
  const usual = await expiresAt(tx, engine, org_id, {}, now);
  return rows.map((row) => {
    const deployment: DeploymentRow = {
      ...row,
      status: "queued",
      expires_at: row.rollout.expires_at === undefined ? usual : parseTime(row.rollout.expires_at),
      fan_out_at: now,
      fan_out_done_at: now,
      count_total: 1,
      count_queued: 1,
    };
    return { deployment, target: targetOf(engine, deployment, now) };
  });
}

/** Whether a deployment can start in a batch. Depends only on fields that never change after its creation. */
const isForOneRobot = (due: Due): boolean =>
  due.kind === "release" && due.robot_id !== null && due.rollout.waves === undefined && !isLimited(due) && sourceOf(due) === undefined;

function releaseOne(db: Db, engine: CreateContext, due: { org_id: string; id: string }): Promise<void> {
  const { org_id, id } = due;
  return db.transaction(async (tx) => {
    // Lock the deployment's row before its schedule row, in the same order as a cancellation.
    const [row] = await lockDeployments(tx, org_id, [id]);
    if ((await takeDue(tx, org_id, [id], engine.clock.now())).length === 0) return;
    if (row === undefined || row.status !== "scheduled") return;
    if (await endScheduledIfDenied(tx, engine, row)) return;
    await beginFanOut(tx, engine, await moveDeployment(tx, engine, row, "queued", null, SYSTEM));
  });
}
