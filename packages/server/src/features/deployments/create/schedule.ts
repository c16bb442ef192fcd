import { isConnectionLost } from "../../../engines/db/index.ts";
import { SYSTEM } from "../../../kernel/caller.ts";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { parseTime } from "../../../kernel/time.ts";
import { announce } from "../../events/index.ts";
import { endScheduledIfDenied } from "../cancel/authority-changes.ts";
import { beginFanOut, expiresAt, sourceOf } from "./fan-out.ts";
import { Postponed, processItems, separately } from "../reconciler.ts";
import { isLimited } from "../dispatch/slots.ts";
import { listDue } from "../store/claim.ts";
import { drawOrderNumbers, lockDeployments, postponeDue, type Released, releaseScheduled, takeDue } from "../store/deployments.ts";
import { insertEvents } from "../store/events.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { deploymentChange } from "../messages.ts";
import { type CreateContext, deploymentEvent, HINT_DISPATCH, moveDeployment } from "../transition.ts";

const DUE_PER_RUN = 100;
/** How long a deployment that could not start is postponed, behind those that are due earlier. */
const FAILED_AGAIN_MS = 5_000;

/**
 * Background: starts due scheduled deployments and resolves their robots. Deleting the schedule row, the status change and the first
 * targets are one transaction, so each deployment is started once even if a process crashes.
 */
export async function releaseDue(db: SystemDb, engine: CreateContext, postponed = new Postponed()): Promise<boolean> {
  const now = engine.clock.now();
  const due = await listDue(db, now, DUE_PER_RUN, postponed.ids(now));
  let failed = 0;
  for (const [org_id, own] of Map.groupBy(due, (one) => one.org_id)) {
    const org = db.forOrg(org_id);
    const ids = own.map(({ id }) => id);
    let numbered = false;
    const remaining = await (async () => {
      await drawOrderNumbers(org, org_id, ids);
      numbered = true;
      return releaseToRobots(org, engine, org_id, ids);
    })().catch((error: unknown) => {
      if (isConnectionLost(error)) throw error;
      // One failing deployment must not delay the others: each is started in a separate transaction.
      return ids;
    });
    // A failing deployment is postponed in its row. If even that write fails, it is postponed in memory.
    const items = remaining.map((id) => ({ org_id, id }));
    await processItems(engine, postponed, separately(items), async ([item]) => {
      if (item === undefined) return;
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

/** Starts single-robot deployments in one batch, because thousands may be due at one moment. Returns the ids of the others. */
function releaseToRobots(db: Db, engine: CreateContext, org_id: string, ids: readonly string[]): Promise<string[]> {
  return db.transaction(async (tx) => {
    const now = engine.clock.now();
    const simple = (await lockDeployments(tx, org_id, ids)).filter(isForOneRobot);
    const single_ids = simple.map(({ id }) => id);
    const others = ids.filter((id) => !single_ids.includes(id));
    const taken = new Set((await takeDue(tx, org_id, single_ids, now)).map(({ id }) => id));
    if (taken.size === 0) return others;
    const usual = await expiresAt(tx, engine, org_id, {}, now);
    const leaving = simple.flatMap(({ id, rollout }): Released[] => {
      const expires_at = rollout.expires_at === undefined ? usual : parseTime(rollout.expires_at);
      return taken.has(id) ? [{ id, target_id: engine.id("tgt"), expires_at }] : [];
    });
    const queued = await releaseScheduled(tx, org_id, leaving, now);
    const events = queued.map((row) => deploymentEvent(engine, row, row.event_seq, SYSTEM, now));
    await insertEvents(tx, org_id, events);
    const changes = queued.map((row) => deploymentChange(row, "status", row.status));
    announce(tx, engine, org_id, changes);
    tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
    return others;
  });
}

const isForOneRobot = (row: DeploymentRow): boolean =>
  row.status === "scheduled" &&
  row.kind === "release" &&
  row.robot_id !== null &&
  row.rollout.waves === undefined &&
  !isLimited(row) &&
  sourceOf(row) === undefined;

function releaseOne(db: Db, engine: CreateContext, due: { org_id: string; id: string }): Promise<void> {
  const { org_id, id } = due;
  return db.transaction(async (tx) => {
    // The deployment's row first, in the same order as a cancellation.
    const [row] = await lockDeployments(tx, org_id, [id]);
    if ((await takeDue(tx, org_id, [id], engine.clock.now())).length === 0) return;
    if (row === undefined || row.status !== "scheduled") return;
    if (await endScheduledIfDenied(tx, engine, row)) return;
    await beginFanOut(tx, engine, await moveDeployment(tx, engine, row, "queued", null, SYSTEM));
  });
}
