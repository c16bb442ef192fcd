import { isTerminal, type TargetStatus } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { SYSTEM } from "../../../kernel/caller.ts";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { decideEnding } from "../decide.ts";
import { CANCEL_ACK_SECONDS, retryAt } from "../policy.ts";
import { moveToNextWindow } from "../dispatch/install-window.ts";
import { byDeployment, Postponed, processItems, withTargets } from "../reconciler.ts";
import { rollBackRobots } from "../rollback/return-robots.ts";
import { afterTimeout, cancelReason, isActive, isAwaited, requestsOf, taskOf } from "../state.ts";
import { listEndings, listLate, lockEndings } from "../store/claim.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";
import { lockRobots, setDeadlines, type TargetChange } from "../store/targets.ts";
import { type Engine, HINT_PUSH, HINT_ROLLOUT, moveTargets } from "../transition.ts";
import { bumpGenerations, lockGenerations, revertConfigs, revertDesiredApps } from "../store/robot-state.ts";

/** Maximum targets per transaction. */
export const CHUNK_TARGETS = 2_000;
const LATE_PER_RUN = 500;

/** Returns the deadline for the acknowledgment of a robot that is asked at `now` to stop. */
const stoppedBy = (now: Date): Date => new Date(now.getTime() + CANCEL_ACK_SECONDS * 1_000);

/**
 * Background: ends the targets of deployments that are cancelled, are rolling back, were stopped or have expired, regardless of what the
 * targets wait for. Returns true if there may be more.
 */
export async function endPendingTargets(
  db: SystemDb,
  engine: Engine,
  postponed = new Postponed(),
  chunk = CHUNK_TARGETS,
): Promise<boolean> {
  const now = engine.clock.now();
  const claimed = await listEndings(db, now, stoppedBy(now), chunk, postponed.ids(now));
  await processItems(engine, postponed, byDeployment(claimed), (some) =>
    withTargets(db, some, (tx, deployment, targets) => endTargets(tx, engine, deployment, targets, SYSTEM)),
  );
  return claimed.length > 0;
}

/**
 * Ends the first chunk of a deployment's targets in the transaction of the request that cancels or rolls back the deployment. A background
 * loop ends the other chunks. The caller has locked the deployment's row.
 */
export async function cancelPendingTargets(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  actor: Actor,
  chunk: number,
): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const targets = await lockEndings(tx, deployment.org_id, deployment.id, now, stoppedBy(now), chunk);
  if (targets.length === chunk) tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
  return endTargets(tx, engine, deployment, targets, actor);
}

/**
 * Ends targets whose robots have changed nothing. Asks robots that are downloading to stop and to acknowledge the request. If the
 * deployment rolls back, also rolls back the robots that have its release.
 */
async function endTargets(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  targets: readonly TargetRow[],
  actor: Actor,
): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const decided = targets.flatMap((target) => {
    const ending = decideEnding(target, deployment, now);
    return ending === undefined ? [] : [{ target, ending }];
  });
  const asked = decided.flatMap(({ target, ending }) => ("ask" in ending ? [target] : []));
  const ends = decided.flatMap(({ target, ending }): TargetChange[] =>
    "end" in ending ? [{ target, to: ending.end, reason: ending.reason }] : [],
  );
  const asked_ids = asked.map(({ id }) => id);
  if (asked_ids.length > 0) await setDeadlines(tx, deployment.org_id, asked_ids, stoppedBy(now));
  const row = await endWith(tx, engine, deployment, ends, actor, asked);
  const applied = decided.flatMap(({ target, ending }) => ("roll_back" in ending ? [target] : []));
  return rollBackRobots(tx, engine, row, applied, actor);
}

/**
 * Moves targets. Reverts the desired state of the robots whose targets end or are in `stopping`. This includes targets that wait for their
 * next attempt, because their robots may still be working on the previous attempt.
 */
export async function endWith(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  changes: readonly TargetChange[],
  actor: Actor,
  stopping: readonly TargetRow[] = [],
): Promise<DeploymentRow> {
  const ended = changes.filter(({ target, to }) => target.attempt > 0 && isTerminal(to));
  const ends = new Map(ended.map(({ target, to }) => [target.id, to]));
  await revertDesiredState(tx, engine, deployment.org_id, [...stopping, ...ended.map(({ target }) => target)], ends);
  return moveTargets(tx, engine, deployment, changes, actor);
}

/** Background: retries or fails targets whose step timed out. Returns true if there may be more. */
export async function endLateSteps(db: SystemDb, engine: Engine, postponed = new Postponed()): Promise<boolean> {
  const now = engine.clock.now();
  const late = await listLate(db, now, LATE_PER_RUN, postponed.ids(now));
  await processItems(engine, postponed, byDeployment(late), (some) =>
    withTargets(db, some, (tx, deployment, targets) => endLate(tx, engine, deployment, targets)),
  );
  return late.length === LATE_PER_RUN;
}

async function endLate(tx: Db, engine: Engine, deployment: DeploymentRow, locked: readonly TargetRow[]): Promise<void> {
  const { org_id, expires_at, rollout } = deployment;
  const now = engine.clock.now();
  // Checks the status again under the lock, because a report may have arrived since the claim.
  const targets = locked.filter(({ status, deadline_at }) => isActive(status) && deadline_at !== null && deadline_at <= now);
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const robots = new Map((await lockRobots(tx, org_id, robot_ids)).map((robot) => [robot.id, robot]));
  const isOnline = ({ robot_id }: TargetRow): boolean => robots.get(robot_id)?.online ?? false;
  const awaited = targets.filter((target) => isAwaited({ ...target, task: taskOf(target) }, { online: isOnline(target) }));
  const awaited_ids = awaited.map(({ id }) => id);
  if (awaited.length > 0 && expires_at !== null) await setDeadlines(tx, org_id, awaited_ids, expires_at);
  const requests = requestsOf(deployment);
  const held = targets.filter(({ status }) => status === "staged" && rollout.window !== undefined && cancelReason(requests) === null);
  await moveToNextWindow(tx, engine, deployment, held);
  const late = targets.filter((target) => !awaited.includes(target) && !held.includes(target));
  const changes = late.map((target): TargetChange => {
    const { to, reason } = afterTimeout(target, { ...requests, online: isOnline(target) });
    return { target, to, reason, not_before_at: to === "queued" ? retryAt(target.attempt, now) : null };
  });
  await endWith(tx, engine, deployment, changes, SYSTEM);
}

/** Results that indicate a fault of the release. */
const FAILURES: ReadonlySet<TargetStatus | undefined> = new Set(["failed", "rolled_back"]);

/**
 * Reverts the desired state of the robots of these targets, which ended without success or are being cancelled. A robot that has begun to
 * install is not interrupted: it finishes, and decides locally whether the installation succeeded.
 */
export async function revertDesiredState(
  tx: Db,
  engine: Engine,
  org_id: string,
  targets: readonly Pick<TargetRow, "id" | "kind" | "robot_id">[],
  /** The final status of each target, by target id; absent for targets that are only being cancelled. */
  ends: ReadonlyMap<string, TargetStatus> = new Map(),
): Promise<void> {
  if (targets.length === 0) return;
  const now = engine.clock.now();
  const target_robots = targets.map(({ robot_id }) => robot_id);
  await lockGenerations(tx, org_id, target_robots);
  const releases = targets.filter(({ kind }) => kind === "release");
  const configs = targets.filter(({ kind }) => kind === "config");
  const failed = releases.filter(({ id }) => FAILURES.has(ends.get(id))).map(({ id }) => id);
  const robots = new Set<string>();
  if (releases.length > 0) for (const { robot_id } of await revertDesiredApps(tx, org_id, releases, failed, now)) robots.add(robot_id);
  if (configs.length > 0) for (const { robot_id } of await revertConfigs(tx, org_id, configs, now)) robots.add(robot_id);
  if (robots.size === 0) return;
  const robot_ids = [...robots];
  await bumpGenerations(tx, org_id, robot_ids, now);
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids }));
}
