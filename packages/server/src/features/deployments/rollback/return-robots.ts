import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { readAuthorities } from "../../access/index.ts";
import { decideRollback } from "../decide.ts";
import { rollbackDeadline, verifySecondsOf } from "../policy.ts";
import { bumpGenerations, desiredBy, listAppStates, setDesiredApps } from "../store/robot-state.ts";
import { lockSignedReleases } from "../store/deployments.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";
import { lockRobots, type TargetChange } from "../store/targets.ts";
import { type Engine, HINT_PUSH, moveTargets } from "../transition.ts";

/**
 * Rolls robots that have a deployment's release back to the release that each ran before. The rollback is the next attempt of the robot's
 * target: the robot installs and verifies the previous release like any other. Offline robots roll back when they connect. The caller has
 * locked the deployment and the targets.
 */
export async function rollBackRobots(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  targets: readonly TargetRow[],
  actor: Actor,
): Promise<DeploymentRow> {
  if (targets.length === 0) return deployment;
  const { org_id } = deployment;
  const now = engine.clock.now();
  const { robots, generations, decided } = await decideAll(tx, deployment, targets, now);
  const going = decided.flatMap(({ target, decision }) => ("go" in decision ? [target] : []));
  const verify_seconds = verifySecondsOf(deployment.rollout);
  await setDesiredApps(
    tx,
    org_id,
    going.map((target) => desiredBy(deployment, target, { release_id: target.previous_release_id, attempt: target.attempt + 1 })),
    now,
  );
  if (going.length > 0) {
    const notified_ids = going.map(({ robot_id }) => robot_id);
    tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: notified_ids }));
  }
  const steps = decided.map(({ target, decision }): TargetChange => {
    const online = robots.get(target.robot_id)?.online === true;
    return {
      target,
      to: "rolling_back",
      reason: "rollback_requested",
      attempt: target.attempt + 1,
      reverting: true,
      deadline_at: "go" in decision ? (online ? rollbackDeadline(verify_seconds, now) : deployment.expires_at) : null,
      dispatch_generation: generations.get(target.robot_id) ?? null,
      data: { release_id: target.previous_release_id },
    };
  });
  const row = await moveTargets(tx, engine, deployment, steps, actor);
  const over = decided.flatMap(({ target, decision }): TargetChange[] =>
    "go" in decision
      ? []
      : [
          {
            target: { ...target, status: "rolling_back", attempt: target.attempt + 1, reverting: true },
            to: decision.end,
            reason: decision.reason,
          },
        ],
  );
  return moveTargets(tx, engine, row, over, actor);
}

/** Decides for each target whether its robot rolls back, and locks the robots' generations. */
async function decideAll(tx: Db, deployment: DeploymentRow, targets: readonly TargetRow[], now: Date) {
  const { org_id, app: name } = deployment;
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const robots = new Map((await lockRobots(tx, org_id, robot_ids)).map((robot) => [robot.id, robot]));
  const previous = [...new Set(targets.flatMap(({ previous_release_id }) => previous_release_id ?? []))];
  const existing = new Set((await lockSignedReleases(tx, org_id, previous)).map(({ id }) => id));
  // Lock `robot_desired` before changing a robot's state, in the same order as reports do.
  const generations = new Map((await bumpGenerations(tx, org_id, robot_ids, now)).map((row) => [row.robot_id, row.generation]));
  const apps = new Map((await listAppStates(tx, org_id, robot_ids, name ?? "main")).map((state) => [state.robot_id, state]));
  const authorities = await readAuthorities(tx, org_id, [deployment]);
  const decided = targets.map((target) => ({
    target,
    decision: decideRollback({
      target,
      robot: robots.get(target.robot_id),
      app: apps.get(target.robot_id),
      previous_exists: target.previous_release_id === null || existing.has(target.previous_release_id),
      denial: authorities.denialAt(deployment, robots.get(target.robot_id)),
    }),
  }));
  return { robots, generations, decided };
}
