import { isTerminal } from "@robofleet/protocol";
import type { Actor } from "@robofleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { arrivalsOf } from "./arrivals.ts";
import { RETURN_SECONDS } from "./policy.ts";
import { lockDeployments } from "./store/deployments.ts";
import { listOpenOfRobot, lockTargets, wakeWaitingForArtifact, wakeWaitingForRobot } from "./store/targets.ts";
import { type Engine, HINT_DISPATCH, moveTargets } from "./transition.ts";

/** A robot is removed: whatever is under way for it ends, in the caller's transaction. */
export async function endTargetsOfRobot(tx: Db, engine: Engine, org_id: string, robot_id: string, actor: Actor): Promise<void> {
  const open = await listOpenOfRobot(tx, org_id, robot_id);
  if (open.length === 0) return;
  const deployments = await lockDeployments(tx, org_id, [...new Set(open.map(({ deployment_id }) => deployment_id))]);
  const targets = await lockTargets(
    tx,
    org_id,
    open.map(({ id }) => id),
  );
  for (const deployment of deployments) {
    const own = targets.filter(({ deployment_id, status }) => deployment_id === deployment.id && !isTerminal(status));
    await moveTargets(
      tx,
      engine,
      deployment,
      own.map((target) => ({ target, to: "cancelled", reason: "robot_removed" })),
      actor,
    );
  }
}

/** The artifact that targets wait for has arrived. */
export async function artifactStored(db: Db, engine: Engine, org_id: string, release_id: string): Promise<void> {
  if ((await wakeWaitingForArtifact(db, org_id, release_id)) > 0) db.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
}

/** A robot came online, and its presence is committed: its queued targets may go, and it is looked at whether it has what its fleet has. */
export async function robotOnline(db: Db, engine: Engine, org_id: string, robot_id: string): Promise<void> {
  arrivalsOf(engine).add(org_id, robot_id);
  if ((await wakeWaitingForRobot(db, org_id, robot_id, RETURN_SECONDS, engine.clock.now())) > 0) engine.bus.publish(HINT_DISPATCH, null);
}
