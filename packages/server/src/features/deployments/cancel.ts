import { isTerminal } from "@robofleet/protocol";
import type { Actor } from "@robofleet/protocol/routes";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import { eachApart } from "./each-apart.ts";
import { giveBack } from "./give-back.ts";
import { CANCEL_ACK_SECONDS } from "./policy.ts";
import { deleteDue, getDeploymentRow, listCancelling, lockDeployments, setCancelRequested } from "./store/deployments.ts";
import type { DeploymentKind, DeploymentRow } from "./store/rows.ts";
import { lockTargetsByStatus, lockToBeStopped, setDeadlines } from "./store/targets.ts";
import { type Engine, moveDeployment, moveTargets } from "./transition.ts";

const CHUNK_TARGETS = 2_000;

/**
 * Asks for a deployment to stop. What no robot has seen ends at once; robots that only download are told to stop and
 * acknowledge; those that install or verify finish.
 */
export async function cancelDeployment(
  db: Db,
  engine: Engine,
  org_id: string,
  id: string,
  actor: Actor,
  chunk = CHUNK_TARGETS,
  kind: DeploymentKind = "release",
): Promise<DeploymentRow> {
  return db.transaction(async (tx) => {
    if ((await getDeploymentRow(tx, org_id, kind, id)) === undefined)
      throw notFound(kind === "release" ? "deployment" : "config deployment", id);
    const [locked] = await lockDeployments(tx, org_id, [id]);
    if (locked === undefined) throw notFound("deployment", id);
    if (isTerminal(locked.status)) throw conflict(`deployment ${id} has ended: ${locked.status}`);
    if (locked.cancel_requested_at !== null) return locked;
    const now = engine.clock.now();
    await setCancelRequested(tx, org_id, id, now);
    const row = { ...locked, cancel_requested_at: now };
    if (row.status === "scheduled") {
      await deleteDue(tx, org_id, id);
      return moveDeployment(tx, engine, row, "cancelled", "user_cancelled", actor);
    }
    const cancelling = await moveDeployment(tx, engine, row, "cancelling", "user_cancelled", actor);
    return cancelOpen(tx, engine, cancelling, actor, chunk);
  });
}

/** One chunk of a cancelled deployment's targets; the background goes on with the next. */
async function cancelOpen(tx: Db, engine: Engine, deployment: DeploymentRow, actor: Actor, chunk: number): Promise<DeploymentRow> {
  const { org_id, id } = deployment;
  const stopped_by = new Date(engine.clock.now().getTime() + CANCEL_ACK_SECONDS * 1_000);
  const revocable = await lockToBeStopped(tx, org_id, id, stopped_by, chunk);
  const waiting = await lockTargetsByStatus(tx, org_id, id, ["pending", "queued"], chunk);
  // The robot of a target that waits for its next attempt may still be at the last one.
  await giveBack(tx, engine, org_id, [...revocable, ...waiting.filter(({ attempt }) => attempt > 0)]);
  if (revocable.length > 0) {
    await setDeadlines(
      tx,
      org_id,
      revocable.map((target) => target.id),
      stopped_by,
    );
  }
  return moveTargets(
    tx,
    engine,
    deployment,
    waiting.map((target) => ({ target, to: "cancelled", reason: "user_cancelled" })),
    actor,
  );
}

/** Background: goes on with cancellations of fleets larger than a chunk. */
export async function continueCancellations(db: SystemDb, engine: Engine, chunk = CHUNK_TARGETS): Promise<boolean> {
  const open = await listCancelling(db, 20);
  await eachApart(open, ({ org_id, id }) =>
    db.forOrg(org_id).transaction(async (tx) => {
      const [row] = await lockDeployments(tx, org_id, [id]);
      if (row !== undefined && !isTerminal(row.status)) await cancelOpen(tx, engine, row, SYSTEM, chunk);
    }),
  );
  return open.length > 0;
}
