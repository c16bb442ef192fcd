import type { Reason } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { giveBack } from "./give-back.ts";
import { CANCEL_ACK_SECONDS } from "./policy.ts";
import type { DeploymentRow } from "./store/rows.ts";
import { lockTargetsByStatus, lockToBeStopped, setDeadlines } from "./store/targets.ts";
import { type Engine, moveTargets } from "./transition.ts";

/**
 * Cancels one chunk of a deployment's targets that have changed nothing on their robots. Pending and queued targets become `cancelled`
 * immediately; robots that are downloading are asked to stop and acknowledge it. The caller has locked the deployment's row.
 */
export async function callOff(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  reason: Reason,
  actor: Actor,
  chunk: number,
): Promise<DeploymentRow> {
  const { org_id, id } = deployment;
  const stopped_by = new Date(engine.clock.now().getTime() + CANCEL_ACK_SECONDS * 1_000);
  const revocable = await lockToBeStopped(tx, org_id, id, stopped_by, chunk);
  const waiting = await lockTargetsByStatus(tx, org_id, id, ["pending", "queued"], chunk);
  // The robot of a target that waits for its next attempt may still be working on the previous one.
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
    waiting.map((target) => ({ target, to: "cancelled", reason })),
    actor,
  );
}
