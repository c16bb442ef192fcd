import type { Db, SystemDb } from "../../kernel/db.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { announce } from "../events/index.ts";
import { continueDeployments } from "./continue-deployments.ts";
import { Postponed } from "./each-apart.ts";
import { expiresAt } from "./expiry.ts";
import { countMembersOf, membersOf } from "./members.ts";
import { listUnfinishedFanOuts, setFanOut, setFanOutProgress } from "./store/deployments.ts";
import { isLimited, wakeSlots } from "./slots.ts";
import { ALL_NAMESPACES, type DeploymentRow } from "./store/rows.ts";
import { insertTargets } from "./store/targets.ts";
import { deploymentChange } from "./tell.ts";
import { type CreateContext, endIfOver, HINT_DISPATCH, moveDeployment } from "./transition.ts";
import { assignRobots } from "./waves.ts";

/** Targets per transaction: few enough that its locks and 12 ms of CPU delay no other request, many enough that 100,000 take 50 transactions. */
const CHUNK_TARGETS = 2_000;
export const HINT_FAN_OUT = "rf.deployments.fan_out";

/**
 * Resolves the robots of a deployment. The first chunk is written in the caller's transaction, so a small fleet is complete immediately.
 * The rest follows in the background, from the current members, and resumes from its cursor after a crash.
 */
export async function beginFanOut(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const expires_at = await expiresAt(tx, engine, deployment.org_id, deployment.rollout, now);
  const total = await countMembersOf(tx, deployment);
  await setFanOut(tx, deployment.org_id, deployment.id, { fan_out_at: now, expires_at, count_total: total });
  return continueFanOut(tx, engine, { ...deployment, fan_out_at: now, expires_at, count_total: total });
}

async function continueFanOut(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  if (deployment.wave_to_assign !== null) return continueAssignment(tx, engine, deployment);
  const { org_id, id } = deployment;
  const now = engine.clock.now();
  const cursor = deployment.fan_out_cursor ?? "";
  const robots = await membersOf(tx, deployment, cursor, CHUNK_TARGETS);
  const last = robots.length < CHUNK_TARGETS;
  const written =
    robots.length === 0
      ? 0
      : await insertTargets(
          tx,
          {
            org_id,
            deployment_id: id,
            kind: deployment.kind,
            ...startOf(deployment),
            subject: deployment.kind === "release" ? (deployment.app ?? "main") : (deployment.namespace ?? ALL_NAMESPACES),
            robots: robots.map((robot) => ({ id: engine.id("tgt"), ...robot })),
          },
          now,
        );
  const in_waves = deployment.rollout.waves !== undefined;
  const row = await setFanOutProgress(tx, org_id, id, {
    cursor: robots.at(-1)?.robot_id ?? cursor,
    counter: startOf(deployment).status,
    written,
    last,
    done_at: last && !in_waves ? now : null,
    wave_to_assign: last && in_waves ? 0 : null,
    step_at: last && isLimited(deployment) ? now : null,
  });
  // One change for the chunk, not one per target: clients that show targets read the list again.
  announce(tx, engine, org_id, deploymentChange(row, "targets"));
  if (!last) {
    tx.afterCommit(() => engine.bus.publish(HINT_FAN_OUT, null));
    return row;
  }
  if (row.count_total === 0)
    return moveDeployment(tx, engine, row, "cancelled", row.cancel_requested_at === null ? "no_targets" : "user_cancelled", SYSTEM);
  if (in_waves) return continueAssignment(tx, engine, row);
  if (isLimited(deployment)) await wakeSlots(tx, row);
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  return endIfOver(tx, engine, row);
}

/** The initial state of a target. In a deployment by waves it is in the last wave until it is assigned to its own. */
function startOf(deployment: DeploymentRow): { status: "pending" | "queued"; wave: number; waiting_for: "slot" | null } {
  const { waves } = deployment.rollout;
  if (waves !== undefined) return { status: "pending", wave: waves.length, waiting_for: null };
  return { status: "queued", wave: 0, waiting_for: isLimited(deployment) ? "slot" : null };
}

async function continueAssignment(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  const row = await assignRobots(tx, engine, deployment);
  if (row.fan_out_done_at !== null) return endIfOver(tx, engine, row);
  tx.afterCommit(() => engine.bus.publish(HINT_FAN_OUT, null));
  return row;
}

/** Background: writes the next chunk of every unfinished fan-out. Returns true while there is more. */
export const continueFanOuts = async (db: SystemDb, engine: CreateContext, postponed = new Postponed()): Promise<boolean> =>
  (await continueDeployments(
    db,
    engine,
    postponed,
    (skip) => listUnfinishedFanOuts(db, 10, skip),
    async (tx, row) => {
      if (row.fan_out_done_at === null) await continueFanOut(tx, engine, row);
    },
  )) > 0;
