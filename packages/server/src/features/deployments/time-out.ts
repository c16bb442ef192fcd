import { isTerminal } from "@roamfleet/protocol";
import { SYSTEM } from "../../kernel/caller.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { isolateFailures } from "../../kernel/isolate-failures.ts";
import { continueDeployments } from "./continue-deployments.ts";
import { eachApart, Postponed } from "./each-apart.ts";
import { giveBack } from "./give-back.ts";
import { retryAt } from "./policy.ts";
import { moveToNextWindow } from "./install-window.ts";
import { afterTimeout, calledOff, isActive, isAwaited, requestsOf, REVOCABLE_STATUSES, taskOf } from "./state.ts";
import { listExpired, lockDeployments } from "./store/deployments.ts";
import { lockReturning } from "./store/rollback.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { holdRobots, listLate, lockTargets, lockTargetsByStatus, setDeadlines, type TargetChange } from "./store/targets.ts";
import { type Engine, moveTargets } from "./transition.ts";

const LATE_PER_TURN = 500;
const CHUNK_TARGETS = 2_000;

/** Background: retries or fails targets whose step timed out. Returns true if there may be more. */
export async function endLateSteps(db: SystemDb, engine: Engine, postponed = new Postponed()): Promise<boolean> {
  const late = await listLate(db, engine.clock.now(), LATE_PER_TURN, postponed.ids(engine.clock.now()));
  const groups = Array.from(
    Map.groupBy(late, ({ deployment_id }) => deployment_id),
    ([deployment_id, own]) => ({
      org_id: own[0]?.org_id ?? "",
      deployment_id,
      own,
    }),
  );
  await eachApart(
    engine,
    postponed,
    groups,
    (group) => group.deployment_id,
    async ({ org_id, deployment_id, own }) => {
      const ids = own.map(({ id }) => id);
      const failures = await isolateFailures(ids, isConnectionLost, (some) =>
        db.forOrg(org_id).transaction((tx) => endLate(tx, engine, org_id, deployment_id, some)),
      );
      if (failures !== undefined) throw failures.error;
    },
  );
  return late.length === LATE_PER_TURN;
}

async function endLate(tx: Db, engine: Engine, org_id: string, deployment_id: string, ids: readonly string[]): Promise<void> {
  const [deployment] = await lockDeployments(tx, org_id, [deployment_id]);
  if (deployment === undefined) return;
  const now = engine.clock.now();
  // Read again under the lock: a report may have arrived since.
  const targets = (await lockTargets(tx, org_id, ids)).filter(
    ({ status, deadline_at }) => isActive(status) && deadline_at !== null && deadline_at <= now,
  );
  const robots = new Map(
    (
      await holdRobots(
        tx,
        org_id,
        targets.map(({ robot_id }) => robot_id),
      )
    ).map((robot) => [robot.id, robot]),
  );
  const isOnline = ({ robot_id }: TargetRow): boolean => robots.get(robot_id)?.online ?? false;
  const awaited = targets.filter((target) => isAwaited({ ...target, task: taskOf(target) }, { online: isOnline(target) }));
  if (awaited.length > 0 && deployment.expires_at !== null)
    await setDeadlines(
      tx,
      org_id,
      awaited.map(({ id }) => id),
      deployment.expires_at,
    );
  const held = targets.filter(({ status }) => status === "staged" && deployment.rollout.window !== undefined && isGoingOn(deployment));
  await moveToNextWindow(tx, engine, deployment, held);
  const late = targets.filter((target) => !awaited.includes(target) && !held.includes(target));
  const changes = late.map((target): TargetChange => {
    const after = afterTimeout(target, { ...requestsOf(deployment), online: isOnline(target) });
    return { target, to: after.to, reason: after.reason, not_before_at: after.to === "queued" ? retryAt(target.attempt, now) : null };
  });
  await giveBack(
    tx,
    engine,
    org_id,
    changes.filter(({ to }) => isTerminal(to)).map(({ target }) => target),
    new Map(changes.map(({ target, to }) => [target.id, to])),
  );
  await moveTargets(tx, engine, deployment, changes, SYSTEM);
}

/** Whether nothing has requested the end of the deployment. */
const isGoingOn = (deployment: DeploymentRow): boolean => calledOff(requestsOf(deployment)) === null;

/**
 * Background: handles expired deployments. Targets that have not begun to install are cancelled, whatever they wait for; robots that are
 * still rolling back have failed to.
 */
export async function expireDeployments(db: SystemDb, engine: Engine, postponed = new Postponed()): Promise<boolean> {
  let more = false;
  await continueDeployments(
    db,
    engine,
    postponed,
    (skip) => listExpired(db, engine.clock.now(), 20, skip),
    async (tx, deployment) => {
      const { org_id, id } = deployment;
      const targets = await lockTargetsByStatus(tx, org_id, id, ["pending", "queued", ...REVOCABLE_STATUSES], CHUNK_TARGETS);
      more ||= targets.length === CHUNK_TARGETS;
      const returning = await lockReturning(tx, org_id, id, CHUNK_TARGETS);
      more ||= returning.length === CHUNK_TARGETS;
      await giveBack(tx, engine, org_id, [...targets, ...returning], new Map(returning.map((target) => [target.id, "failed"])));
      await moveTargets(
        tx,
        engine,
        deployment,
        [
          ...targets.map((target): TargetChange => ({ target, to: "cancelled", reason: "expired" })),
          ...returning.map((target): TargetChange => ({ target, to: "failed", reason: "rollback_failed" })),
        ],
        SYSTEM,
      );
    },
  );
  return more;
}
