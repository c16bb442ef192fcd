import { isTerminal } from "@robofleet/protocol";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { eachApart } from "./each-apart.ts";
import { giveBack } from "./give-back.ts";
import { retryAt } from "./policy.ts";
import { afterTimeout, isActive, REVOCABLE_STATUSES } from "./state.ts";
import { listExpired, lockDeployments } from "./store/deployments.ts";
import { holdRobots, listLate, lockTargets, lockTargetsByStatus, type TargetChange } from "./store/targets.ts";
import { type Engine, moveTargets } from "./transition.ts";

const LATE_PER_TURN = 500;
const CHUNK_TARGETS = 2_000;

/** Background: targets whose step took too long are tried again or given up. Answers true when there may be more. */
export async function endLateSteps(db: SystemDb, engine: Engine): Promise<boolean> {
  const late = await listLate(db, engine.clock.now(), LATE_PER_TURN);
  await eachApart(Map.groupBy(late, ({ org_id, deployment_id }) => `${org_id} ${deployment_id}`).values(), (own) => {
    const { org_id, deployment_id } = own[0] as (typeof own)[number];
    return db.forOrg(org_id).transaction((tx) =>
      endLate(
        tx,
        engine,
        org_id,
        deployment_id,
        own.map(({ id }) => id),
      ),
    );
  });
  return late.length === LATE_PER_TURN;
}

async function endLate(tx: Db, engine: Engine, org_id: string, deployment_id: string, ids: readonly string[]): Promise<void> {
  const [deployment] = await lockDeployments(tx, org_id, [deployment_id]);
  if (deployment === undefined) return;
  const now = engine.clock.now();
  // Looked at again under the lock: a report may have come meanwhile.
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
  const changes = targets.map((target): TargetChange => {
    const after = afterTimeout(target, {
      cancel_requested: deployment.cancel_requested_at !== null,
      online: robots.get(target.robot_id)?.online ?? false,
    });
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

/** Background: what a deployment has not begun to install when it expires is cancelled, whatever it waits for. */
export async function expireDeployments(db: SystemDb, engine: Engine): Promise<boolean> {
  const expired = await listExpired(db, engine.clock.now(), 20);
  let more = false;
  await eachApart(expired, ({ org_id, id }) =>
    db.forOrg(org_id).transaction(async (tx) => {
      const [deployment] = await lockDeployments(tx, org_id, [id]);
      if (deployment === undefined || isTerminal(deployment.status)) return;
      const targets = await lockTargetsByStatus(tx, org_id, id, ["pending", "queued", ...REVOCABLE_STATUSES], CHUNK_TARGETS);
      more ||= targets.length === CHUNK_TARGETS;
      await giveBack(tx, engine, org_id, targets);
      await moveTargets(
        tx,
        engine,
        deployment,
        targets.map((target) => ({ target, to: "cancelled", reason: "expired" })),
        SYSTEM,
      );
    }),
  );
  return more;
}
