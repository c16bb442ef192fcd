import { isTerminal, type TargetStatus } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { robotActor, SYSTEM } from "../../kernel/caller.ts";
import { giveBack } from "./give-back.ts";
import { waitForWindow } from "./install-window.ts";
import { deadlineOf, retryAt, verifySecondsOf } from "./policy.ts";
import { returnRobots } from "./return-robots.ts";
import { calledOff, isRevocable, requestsOf, type Verdict } from "./state.ts";
import { type AppState, bumpGenerations, listAppStates, releaseConfigs, setAppsApplied, setDesiredApps } from "./store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import type { TargetChange } from "./store/targets.ts";
import { type Engine, HINT_PUSH, moveTargets } from "./transition.ts";

/** What a robot's report changes about its target. */
export interface ReportedMove {
  target: TargetRow;
  verdict: Exclude<Verdict, { ignored: string }>;
  /** The robot's message about the end: for the log, and for the event if a signature was refused. */
  detail: string | undefined;
  /** More for the event's data. */
  data?: Record<string, unknown>;
}

/** Statuses from which the robot always finishes what it began. */
const FINISHING: readonly TargetStatus[] = ["installing", "verifying", "applied"];

/** Moves targets of these deployments, whose rows the caller has locked; each target at most once. */
export async function applyMoves(
  tx: Db,
  engine: Engine,
  deployments: readonly DeploymentRow[],
  moves: readonly ReportedMove[],
): Promise<void> {
  const by_deployment = Map.groupBy(moves, ({ target }) => target.deployment_id);
  for (const deployment of deployments) {
    const own = by_deployment.get(deployment.id);
    if (own !== undefined) await applyOwn(tx, engine, deployment, own);
  }
  for (const { target, verdict, detail } of moves)
    if (detail !== undefined)
      engine.log.info({ robot_id: target.robot_id, target_id: target.id, status: verdict.to, detail }, "target ended");
}

/** Applies the moves of one deployment and their consequences for its robots. */
async function applyOwn(tx: Db, engine: Engine, deployment: DeploymentRow, moves: readonly ReportedMove[]): Promise<void> {
  const { org_id } = deployment;
  const now = engine.clock.now();
  const staying = moves.filter(({ verdict }) => verdict.reverts !== true);
  const windows = await installWindows(
    tx,
    deployment,
    moves.filter(({ verdict }) => verdict.to === "staged").map(({ target }) => target),
  );
  const row = await moveTargets(
    tx,
    engine,
    deployment,
    staying.map((move) => changeOf(deployment, move, now, windows.get(move.target.robot_id))),
    SYSTEM,
  );
  const to = (wanted: (status: TargetStatus) => boolean) => moves.filter(({ verdict }) => wanted(verdict.to)).map(({ target }) => target);
  const applied = to((status) => status === "applied");
  const over = to((status) => isTerminal(status) && status !== "applied");
  if (deployment.kind === "release") {
    await restoreDesired(
      tx,
      engine,
      deployment,
      to((status) => FINISHING.includes(status)),
    );
    await recordCurrentReleases(tx, deployment, moves, now);
    const reverting = moves.filter(({ verdict }) => verdict.reverts === true).map(({ target }) => target);
    await returnRobots(tx, engine, row, reverting, SYSTEM);
  } else if (applied.length > 0) await releaseConfigs(tx, org_id, applied);
  await giveBack(tx, engine, org_id, over, new Map(moves.map(({ target, verdict }) => [target.id, verdict.to])));
}

/** Records what the robots now run, if they reached what was asked: the target's release, or the previous one after a rollback. */
async function recordCurrentReleases(tx: Db, { org_id, app }: DeploymentRow, moves: readonly ReportedMove[], now: Date): Promise<void> {
  const runs = moves.flatMap(({ target, verdict }) => {
    const { id, robot_id, release_id, previous_release_id } = target;
    if (verdict.to === "applied" || verdict.reverts === true) return [{ robot_id, release_id, target_id: id }];
    return target.reverting && verdict.to === "rolled_back" ? [{ robot_id, release_id: previous_release_id, target_id: id }] : [];
  });
  if (runs.length > 0) await setAppsApplied(tx, org_id, app ?? "main", runs, now);
}

/** Returns the windows that were sent to these robots, by robot; empty if the policy has none. */
async function installWindows(tx: Db, deployment: DeploymentRow, targets: readonly TargetRow[]): Promise<Map<string, AppState>> {
  if (deployment.rollout.window === undefined || targets.length === 0) return new Map();
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  return new Map((await listAppStates(tx, deployment.org_id, robot_ids, deployment.app ?? "main")).map((state) => [state.robot_id, state]));
}

function changeOf(
  deployment: DeploymentRow,
  { target, verdict, detail, data = {} }: ReportedMove,
  now: Date,
  window: AppState | undefined,
): TargetChange {
  // Robots that are to stop keep their deadline to acknowledge it.
  const stopping = calledOff(requestsOf(deployment)) !== null && isRevocable(verdict.to);
  const held = window === undefined || verdict.to !== "staged" ? undefined : waitForWindow(window, now);
  return {
    target,
    to: verdict.to,
    reason: verdict.reason,
    waiting_for: held?.waiting_for ?? null,
    deadline_at: stopping ? target.deadline_at : (held?.deadline_at ?? deadlineOf(verdict.to, verifySecondsOf(deployment.rollout), now)),
    not_before_at: verdict.to === "queued" ? retryAt(target.attempt, now) : null,
    actor: robotActor(target.robot_id),
    // Only the robot knows why it failed. A signature error is shown as the event's message.
    data: detail === undefined ? data : { ...data, [verdict.reason === "signature_invalid" ? "detail" : "robot_says"]: detail },
  };
}

/** Restores the desired state of robots that were cancelled too late and are already installing: otherwise they would roll back afterwards. */
async function restoreDesired(tx: Db, engine: Engine, deployment: DeploymentRow, targets: readonly TargetRow[]): Promise<void> {
  if (targets.length === 0) return;
  const { org_id } = deployment;
  const app = targets[0]?.subject ?? "";
  const verify_seconds = verifySecondsOf(deployment.rollout);
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const states = new Map((await listAppStates(tx, org_id, robot_ids, app)).map((state) => [state.robot_id, state]));
  const again = targets.flatMap(({ id, robot_id, release_id, attempt }) => {
    const state = states.get(robot_id);
    if (state === undefined || state.target_id !== null || state.last_target_id !== id) return [];
    return [
      { robot_id, release_id, target_id: id, deployment_id: deployment.id, order_number: deployment.order_number, attempt, verify_seconds },
    ];
  });
  if (again.length === 0) return;
  const now = engine.clock.now();
  const again_ids = again.map(({ robot_id }) => robot_id);
  await bumpGenerations(tx, org_id, again_ids, now);
  await setDesiredApps(tx, org_id, app, again, now);
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: again_ids }));
}
