import { isConnectionLost } from "../../engines/db/index.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { parseTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { endScheduledIfDenied } from "./authority-changes.ts";
import { eachApart, Postponed } from "./each-apart.ts";
import { expiresAt } from "./expiry.ts";
import { beginFanOut } from "./fan-out.ts";
import { isLimited } from "./slots.ts";
import { sourceOf } from "./source.ts";
import { listDue, lockDeployments, postponeDue, takeDue } from "./store/deployments.ts";
import { insertEventsOfMany } from "./store/events.ts";
import { drawOrderNumbers, type LeavesShelf, leaveShelf } from "./store/leave-shelf.ts";
import type { DeploymentRow } from "./store/rows.ts";
import { deploymentChange } from "./tell.ts";
import { type CreateContext, deploymentEvent, HINT_DISPATCH, moveDeployment } from "./transition.ts";

const DUE_PER_TURN = 100;
/** How long a deployment that could not start is postponed, behind those that are due earlier. */
const FAILED_AGAIN_MS = 5_000;

/**
 * Background: starts due scheduled deployments and resolves their robots. Deleting the schedule row, the status change and the first
 * targets are one transaction, so each deployment is started once even if a process crashes.
 */
export async function releaseDue(db: SystemDb, engine: CreateContext, postponed = new Postponed()): Promise<boolean> {
  const due = await listDue(db, engine.clock.now(), DUE_PER_TURN, postponed.ids(engine.clock.now()));
  let failed = 0;
  for (const [org_id, own] of Map.groupBy(due, (one) => one.org_id)) {
    const ids = own.map(({ id }) => id);
    const org = db.forOrg(org_id);
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
    await eachApart(
      engine,
      postponed,
      remaining.map((id) => ({ org_id, id })),
      ({ id }) => id,
      async ({ id }) => {
        try {
          if (!numbered) await drawOrderNumbers(org, org_id, [id]);
          await releaseOne(org, engine, org_id, id);
        } catch (error) {
          if (isConnectionLost(error)) throw error;
          failed += 1;
          // Log once per run: one cause may break hundreds.
          if (failed === 1) engine.log.error({ err: error, org_id, deployment_id: id }, "a scheduled deployment could not be started");
          await postponeDue(org, org_id, id, new Date(engine.clock.now().getTime() + FAILED_AGAIN_MS));
        }
      },
    );
  }
  return due.length === DUE_PER_TURN;
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
    const leaving = simple.flatMap(({ id, rollout }): LeavesShelf[] => {
      const expires_at = rollout.expires_at === undefined ? usual : parseTime(rollout.expires_at);
      return taken.has(id) ? [{ id, target_id: engine.id("tgt"), expires_at }] : [];
    });
    const queued = await leaveShelf(tx, org_id, leaving, now);
    await insertEventsOfMany(
      tx,
      org_id,
      queued.map((row) => ({ deployment_id: row.id, ...deploymentEvent(engine, row, row.event_seq, SYSTEM, now) })),
    );
    announce(
      tx,
      engine,
      org_id,
      queued.map((row) => deploymentChange(row, "status", row.status)),
    );
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

function releaseOne(db: Db, engine: CreateContext, org_id: string, id: string): Promise<void> {
  return db.transaction(async (tx) => {
    // The deployment's row first, in the same order as a cancellation.
    const [row] = await lockDeployments(tx, org_id, [id]);
    if ((await takeDue(tx, org_id, [id], engine.clock.now())).length === 0) return;
    if (row === undefined || row.status !== "scheduled") return;
    if (await endScheduledIfDenied(tx, engine, row)) return;
    await beginFanOut(tx, engine, await moveDeployment(tx, engine, row, "queued", null, SYSTEM));
  });
}
