import { isTerminal } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { conflict } from "../../../kernel/fault.ts";
import type { Authority } from "../../access/index.ts";
import { cancelPendingTargets, CHUNK_TARGETS } from "./end-targets.ts";
import { stopFollowing } from "../follow/fleet-desired.ts";
import { lockDeployment } from "../read.ts";
import { deleteDue, patchDeployment } from "../store/deployments.ts";
import type { DeploymentKind, DeploymentRow } from "../store/rows.ts";
import { type Engine, moveDeployment } from "../transition.ts";

interface CancelOptions {
  kind?: DeploymentKind;
  mode?: "finish" | "rollback";
  /** The authority with which the deployment rolls robots back; used only with the mode `rollback`. */
  authority?: Authority;
  /** Maximum targets that end in this transaction. */
  chunk?: number;
}

/**
 * Cancels a deployment. Targets that were not dispatched end immediately. Robots that are downloading are asked to stop, and must
 * acknowledge the request. Robots that are installing or verifying finish first; with the mode `rollback`, they then roll back.
 */
export async function cancelDeployment(
  db: Db,
  engine: Engine,
  org_id: string,
  id: string,
  actor: Actor,
  { kind = "release", mode = "finish", authority, chunk = CHUNK_TARGETS }: CancelOptions = {},
): Promise<DeploymentRow> {
  return db.transaction(async (tx) => {
    const locked = await lockDeployment(tx, org_id, kind, id);
    if (isTerminal(locked.status)) throw conflict(`deployment ${id} has ended: ${locked.status}`);
    if (locked.cancel_requested_at !== null && (mode === "finish" || locked.cancel_mode === mode)) return locked;
    const now = engine.clock.now();
    const row = await patchDeployment(tx, locked, {
      cancel_requested_at: locked.cancel_requested_at ?? now,
      cancel_mode: mode,
      updated_at: now,
      ...(mode === "rollback" && authority !== undefined ? { authority } : {}),
    });
    if (row.status === "scheduled") {
      await deleteDue(tx, org_id, id);
      return moveDeployment(tx, engine, row, "cancelled", "user_cancelled", actor);
    }
    if (mode === "rollback") await stopFollowing(tx, engine, row);
    // The cancellation or rollback of the deployment has already begun, and continues.
    if (row.status === "cancelling" || row.status === "rolling_back") return row;
    const cancelling = await moveDeployment(tx, engine, row, "cancelling", "user_cancelled", actor);
    return cancelPendingTargets(tx, engine, cancelling, actor, chunk);
  });
}
