import { isConnectionLost } from "../../../engines/db/index.ts";
import { SYSTEM } from "../../../kernel/caller.ts";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { parseTime } from "../../../kernel/time.ts";
import { endScheduledIfDenied } from "../cancel/authority-changes.ts";
import { dispatchLocked, type Pair } from "../dispatch/dispatch.ts";
import { isLimited } from "../dispatch/slots.ts";
import { batchGroups, Postponed, processEach } from "../reconciler.ts";
import { mayDispatch } from "../state.ts";
import { type Due, listDue } from "../store/claim.ts";
import { drawOrderNumbers, lockDeployments, nextOrderNumbers, postponeDue, takeDue } from "../store/deployments.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { listOpenTargets } from "../store/targets.ts";
import { type CreateContext, HINT_DISPATCH, moveDeployment } from "../transition.ts";
import { beginFanOut, expiresAt, sourceOf, targetOf } from "./fan-out.ts";

const DUE_PER_RUN = 500;
/**
 * Maximum deployments per transaction. Other transactions wait for their rows for about 50 ms. With 100, PostgreSQL used a fifth more CPU
 * time, because some statements read all rows of a small table.
 */
const BATCH_DEPLOYMENTS_MAX = 250;
/** Concurrent transactions per org. With two, the server prepares one while PostgreSQL writes the other. */
const BATCHES_AT_ONCE = 2;
/** How long a deployment that could not start is postponed. Deployments that are due earlier start before it. */
const FAILED_AGAIN_MS = 5_000;

/**
 * Background: starts scheduled deployments that are due. Thousands may be due at one moment, so deployments to one robot each are started
 * and dispatched in batches, one transaction per batch. All other deployments start one by one, and create their targets first. The
 * transaction that starts a deployment also deletes its schedule row. So each deployment is started once even if a process crashes. Returns
 * true if there may be more.
 */
export async function releaseDue(db: SystemDb, engine: CreateContext, postponed = new Postponed()): Promise<boolean> {
  const now = engine.clock.now();
  const due = await listDue(db, now, DUE_PER_RUN, postponed.ids(now));
  let failed = 0;
  const startSeparately = (org: Db, items: readonly Due[], is_ordered: boolean): Promise<void> =>
    // A failing deployment is postponed in its row. If even that write fails, it is postponed in memory.
    processEach(engine, postponed, items, async (item) => {
      const { org_id, id } = item;
      try {
        if (!is_ordered) await drawOrderNumbers(org, org_id, [id]);
        await releaseOne(org, engine, item);
      } catch (error) {
        if (isConnectionLost(error)) throw error;
        failed += 1;
        // Logs only the first failure of a run, because one cause may affect hundreds of deployments.
        if (failed === 1) engine.log.error({ err: error, org_id, deployment_id: id }, "a scheduled deployment could not be started");
        await postponeDue(org, org_id, id, new Date(engine.clock.now().getTime() + FAILED_AGAIN_MS));
      }
    });
  for (const [org_id, own] of Map.groupBy(due, (one) => one.org_id)) {
    const org = db.forOrg(org_id);
    const can_batch = own.every(isForOneRobot);
    // All deployments of a robot are in one batch. If every deployment can start in a batch, their order across batches does not matter.
    const separate = can_batch ? await startInBatches(org, engine, org_id, own, false) : own;
    const in_order = await storeOrder(org, org_id, separate);
    const is_ordered = in_order !== undefined;
    for (const part of is_ordered ? partsOf(in_order) : [separate]) {
      // Deployments whose batch failed start separately.
      const in_batches = is_ordered && !can_batch && part.every(isForOneRobot);
      await startSeparately(org, in_batches ? await startInBatches(org, engine, org_id, part, true) : part, is_ordered);
    }
  }
  // Others may have become due meanwhile. Each of `due` has started or is postponed, so runs without a pause end.
  return due.length > 0;
}

/**
 * Stores the order numbers of deployments that start in several transactions, and returns the deployments in this order. If that fails,
 * returns undefined; each deployment then draws its own number when it starts.
 */
async function storeOrder(org: Db, org_id: string, due: readonly Due[]): Promise<readonly Due[] | undefined> {
  if (due.length === 0) return due;
  try {
    const numbers = new Map((await drawOrderNumbers(org, org_id, idsOf(due))).map(({ id, order_number }) => [id, order_number]));
    return due.toSorted((a, b) => (numbers.get(a.id) ?? Infinity) - (numbers.get(b.id) ?? Infinity) || 0);
  } catch (error) {
    if (isConnectionLost(error)) throw error;
    return undefined;
  }
}

const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id);

/** Splits deployments, in order, into parts that can start in batches and parts that cannot. */
function partsOf(due: readonly Due[]): Due[][] {
  const parts: Due[][] = [];
  for (const one of due) {
    const last = parts.at(-1);
    if (last?.[0] !== undefined && isForOneRobot(last[0]) === isForOneRobot(one)) last.push(one);
    else parts.push([one]);
  }
  return parts;
}

/**
 * Starts deployments to one robot each, in batches. If a batch fails, starts the deployments of each of its robots in one transaction.
 * Returns the deployments that failed a second time. The caller starts these one by one.
 */
async function startInBatches(org: Db, engine: CreateContext, org_id: string, due: readonly Due[], is_ordered: boolean): Promise<Due[]> {
  const byRobot = (some: readonly Due[]) => Map.groupBy(some, ({ robot_id, id }) => robot_id ?? id).values();
  // All deployments to one robot are in the same transaction. Otherwise the older one could be dispatched before the newer one has started,
  // and concurrent batches would draw order numbers in an arbitrary order.
  const batches = batchGroups(byRobot(due), BATCH_DEPLOYMENTS_MAX);
  const failed: Due[] = [];
  const start = (some: readonly Due[], onFailure: () => unknown): Promise<unknown> =>
    startForRobots(org, engine, org_id, some, is_ordered).catch((error: unknown) => {
      if (isConnectionLost(error)) throw error;
      return onFailure();
    });
  const worker = async (): Promise<void> => {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      const some = batch;
      await start(some, async () => {
        for (const own of byRobot(some)) await start(own, () => failed.push(...own));
      });
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: BATCHES_AT_ONCE }, worker));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  return failed;
}

/**
 * Starts and dispatches deployments to one robot each. Draws new order numbers unless `is_ordered`. Skips deployments that another node has
 * started.
 */
function startForRobots(db: Db, engine: CreateContext, org_id: string, due: readonly Due[], is_ordered: boolean): Promise<void> {
  return db.transaction(async (tx) => {
    const now = engine.clock.now();
    // A deployment that starts may supersede targets of other deployments. Lock all of them in one statement, ordered by id, so that
    // transactions cannot deadlock.
    const [rivals, usual] = await Promise.all([listRivals(tx, org_id, due), expiresAt(tx, engine, org_id, {}, now)]);
    const locked = await lockDeployments(tx, org_id, [...new Set(idsOf([...due, ...rivals]))]);
    const due_ids = new Set(idsOf(due));
    const scheduled = locked.filter(({ id, status }) => status === "scheduled" && due_ids.has(id));
    // Draw the numbers before deleting the schedule rows: a node that no longer finds these rows then draws later numbers.
    const [ordered, taken] = await Promise.all([is_ordered ? scheduled : drawOrder(tx, scheduled), takeDue(tx, org_id, [...due_ids], now)]);
    const taken_ids = new Set(idsOf(taken));
    const pairs = begin(
      engine,
      ordered.filter(({ id }) => taken_ids.has(id)),
      usual,
    );
    const deployments = new Map([...locked, ...pairs.map(({ deployment }) => deployment)].map((row) => [row.id, row]));
    const targets = pairs.map(({ target }) => target);
    const of_robot = Map.groupBy(targets, ({ robot_id }) => robot_id);
    // If several of these targets are for the same robot, only store them now. The dispatch loop chooses the newest afterwards.
    const ready = pairs.filter(({ target, deployment }) => of_robot.get(target.robot_id)?.length === 1 && mayDispatch(deployment, now));
    if (pairs.length > 0) await dispatchLocked(tx, engine, org_id, deployments, ready, targets);
    if (ready.length < pairs.length) tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
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
  const numbers = new Map((await nextOrderNumbers(tx, idsOf(in_order))).map(({ id, order_number }) => [id, order_number]));
  return in_order.map((row) => ({ ...row, order_number: numbers.get(row.id) ?? row.order_number }));
}

/**
 * Builds the rows of deployments that start now, and of their targets. The caller stores them. `usual` is when a deployment expires whose
 * policy does not state it.
 */
function begin(engine: CreateContext, rows: readonly DeploymentRow[], usual: Date): Pair[] {
  const now = engine.clock.now();
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
