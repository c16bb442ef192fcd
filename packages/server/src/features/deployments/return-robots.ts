import type { Reason } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { readAuthorities } from "../access/index.ts";
import { returnDeadline, verifySecondsOf } from "./policy.ts";
import { type AppState, bumpGenerations, listAppStates, setDesiredApps } from "./store/robot-state.ts";
import { holdReleases } from "./store/rollback.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { holdRobots, type TargetChange } from "./store/targets.ts";
import { type Engine, HINT_PUSH, moveTargets } from "./transition.ts";

export interface ReturnFacts {
  target: Pick<TargetRow, "id" | "release_id" | "previous_release_id">;
  robot: { decommissioned: boolean } | undefined;
  app: Pick<AppState, "current_release_id" | "target_id"> | undefined;
  /** Whether the previous release still exists; true if there was none. */
  previous_exists: boolean;
  /** Why the user who requested the rollback may no longer deploy to the robot; null or absent: they may. */
  denial?: Reason | null;
}

export type Return = { go: true } | { end: "cancelled" | "failed"; reason: Reason };

/** Decides whether a robot that got a deployment's release is to roll back, or why it is not. Pure. */
export function decideReturn({ target, robot, app, previous_exists, denial = null }: ReturnFacts): Return {
  if (robot === undefined || robot.decommissioned) return { end: "cancelled", reason: "robot_removed" };
  if (denial !== null) return { end: "cancelled", reason: denial };
  const newer_under_way = app !== undefined && app.target_id !== null && app.target_id !== target.id;
  if (newer_under_way || (app?.current_release_id ?? null) !== target.release_id) return { end: "cancelled", reason: "superseded" };
  return previous_exists ? { go: true } : { end: "failed", reason: "rollback_failed" };
}

/**
 * Rolls robots that have a deployment's release back to what each ran before, as the next attempt of their target: the robot installs and
 * verifies it like any other. The caller has locked the deployment and the targets. Offline robots get it when they connect.
 */
export async function returnRobots(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  targets: readonly TargetRow[],
  actor: Actor,
): Promise<DeploymentRow> {
  if (targets.length === 0) return deployment;
  const { org_id } = deployment;
  const now = engine.clock.now();
  const app = deployment.app ?? "main";
  const { robots, generations, decided } = await decideAll(tx, deployment, targets, now);
  const going = decided.flatMap(({ target, decision }) => ("go" in decision ? [target] : []));
  const verify_seconds = verifySecondsOf(deployment.rollout);
  await setDesiredApps(
    tx,
    org_id,
    app,
    going.map((target) => ({
      robot_id: target.robot_id,
      release_id: target.previous_release_id,
      target_id: target.id,
      deployment_id: deployment.id,
      order_number: deployment.order_number,
      attempt: target.attempt + 1,
      verify_seconds,
    })),
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
      deadline_at: "go" in decision ? (online ? returnDeadline(verify_seconds, now) : deployment.expires_at) : null,
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
  const robots = new Map((await holdRobots(tx, org_id, robot_ids)).map((robot) => [robot.id, robot]));
  const previous = [...new Set(targets.flatMap(({ previous_release_id }) => previous_release_id ?? []))];
  const existing = new Set((await holdReleases(tx, org_id, previous)).map(({ id }) => id));
  // Lock `robot_desired` before changing a robot's state, in the same order as reports do.
  const generations = new Map((await bumpGenerations(tx, org_id, robot_ids, now)).map((row) => [row.robot_id, row.generation]));
  const apps = new Map((await listAppStates(tx, org_id, robot_ids, name ?? "main")).map((state) => [state.robot_id, state]));
  const authorities = await readAuthorities(tx, org_id, [deployment]);
  const decided = targets.map((target) => ({
    target,
    decision: decideReturn({
      target,
      robot: robots.get(target.robot_id),
      app: apps.get(target.robot_id),
      previous_exists: target.previous_release_id === null || existing.has(target.previous_release_id),
      denial: authorities.denialAt(deployment, robots.get(target.robot_id)),
    }),
  }));
  return { robots, generations, decided };
}
