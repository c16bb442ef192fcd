import { isTerminal } from "@roamfleet/protocol";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { conflict } from "../../../kernel/fault.ts";
import { authorityOf } from "../../access/index.ts";
import { cancelPendingTargets, CHUNK_TARGETS } from "../cancel/end-targets.ts";
import { stopFollowing } from "../follow/fleet-desired.ts";
import { createFromEnded, findDeployable } from "../create/from-ended.ts";
import { lockDeployment } from "../read.ts";
import { patchDeployment } from "../store/deployments.ts";
import { groupReturns } from "../store/rollback.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { type CreateContext, HINT_ROLLOUT, moveDeployment } from "../transition.ts";

/**
 * Restores the releases that the robots of a deployment ran before that deployment. Rolls back an open deployment. For an ended one,
 * creates a new deployment and returns it with `is_new`. Throws 409 if there is nothing to roll back.
 */
export async function rollBackDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  id: string,
  chunk = CHUNK_TARGETS,
): Promise<{ row: DeploymentRow; is_new: boolean }> {
  const { org_id, actor } = caller;
  return db.transaction(async (tx) => {
    const row = await lockDeployment(tx, org_id, "release", id);
    if (isTerminal(row.status)) {
      await stopFollowing(tx, engine, row);
      return { row: await createFromEnded(tx, engine, row, "rollback", undefined, caller), is_new: true };
    }
    if (row.status === "scheduled") throw conflict(`deployment ${id} has not started: cancel it instead`);
    if (row.status === "cancelling") throw conflict(`deployment ${id} is being cancelled: roll it back when it has ended`);
    if (row.status === "rolling_back") return { row, is_new: false };
    await requireReturnable(tx, engine, row);
    // From now on, the deployment acts on the authority of the user or token that requested the rollback.
    const requested = await patchDeployment(tx, row, { authority: authorityOf(caller), rollback_requested_at: engine.clock.now() });
    tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
    await stopFollowing(tx, engine, requested);
    const rolling_back = await moveDeployment(tx, engine, requested, "rolling_back", "rollback_requested", actor);
    return { row: await cancelPendingTargets(tx, engine, rolling_back, actor, chunk), is_new: false };
  });
}

/**
 * Throws 409 if every robot would reject its previous release because of that release's signature. If some robots would accept their
 * previous release, the rollback starts, and the other robots fail separately.
 */
async function requireReturnable(tx: Db, engine: CreateContext, { org_id, id }: DeploymentRow): Promise<void> {
  const returns = (await groupReturns(tx, org_id, id)).map(({ release_id }) => release_id);
  if (returns.includes(null)) return;
  const { refusal } = await findDeployable(
    tx,
    engine,
    org_id,
    returns.filter((release_id) => release_id !== null),
  );
  if (refusal !== undefined)
    throw conflict(`the robots of deployment ${id} cannot be rolled back: ${refusal.message}; to stop updating further robots, cancel it`);
}
