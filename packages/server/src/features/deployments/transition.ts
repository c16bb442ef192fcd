import { isTerminal, type Reason } from "@robofleet/protocol";
import type { Actor } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { deploymentSentence, targetSentence } from "./messages.ts";
import { allEnded, counterOf, type Counts, endOf } from "./state.ts";
import { insertEvents } from "./store/events.ts";
import { updateDeployment } from "./store/deployments.ts";
import type { DeploymentRow, EventRow } from "./store/rows.ts";
import { commonestReason, countReasons } from "./reason-counts.ts";
import { changeTargets, type TargetChange, wakeWaitingForPrevious } from "./store/targets.ts";
import { countsOf } from "./wire.ts";

/** What the engine needs of the plane to move a deployment on. */
export type Engine = Pick<Plane, "clock" | "id" | "log" | "metrics" | "bus" | "secrets">;

/** Starting one also needs the limits. */
export type CreateContext = Engine & Pick<Plane, "settings">;

export const HINT_DISPATCH = "rf.deployments.dispatch";
export const HINT_PUSH = "rf.deployments.push";
export const HINT_SCHEDULED = "rf.deployments.scheduled";

const NO_CHANGE: Counts = { total: 0, pending: 0, queued: 0, active: 0, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 };

/**
 * Moves targets of one deployment, whose row the caller holds locked, and the deployment with them: states, counters,
 * events and timelines in the caller's transaction. The only place where a target's status is written.
 */
export async function moveTargets(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  wanted: readonly TargetChange[],
  actor: Actor,
): Promise<DeploymentRow> {
  if (wanted.length === 0) return deployment;
  const { org_id, id } = deployment;
  const now = engine.clock.now();
  const changed = new Set((await changeTargets(tx, org_id, id, wanted, now)).map((row) => row.id));
  const changes = wanted.filter((change) => changed.has(change.target.id));
  if (changes.length < wanted.length)
    engine.log.warn({ deployment_id: id, lost: wanted.length - changes.length }, "targets had moved on before their change");
  if (changes.length === 0) return deployment;

  const delta = { ...NO_CHANGE };
  for (const { target, to } of changes) {
    delta[counterOf(target.status)] -= 1;
    delta[counterOf(to)] += 1;
  }
  const reason_counts = countReasons(
    deployment.reason_counts,
    changes.map(({ target, to, reason }) => ({ from: target, to: { status: to, reason } })),
  );
  const after = settle({ ...deployment, reason_counts }, delta);
  const moved = after.status !== deployment.status;
  const row = await updateDeployment(
    tx,
    org_id,
    id,
    {
      status: after.status,
      reason: after.reason,
      delta,
      reason_counts,
      events: changes.length + (moved ? 1 : 0),
      started_at: after.status === "in_progress" ? now : null,
      finished_at: isTerminal(after.status) ? now : null,
    },
    now,
  );
  const first_seq = row.event_seq - changes.length - (moved ? 1 : 0) + 1;
  const events = changes.map((change, i): EventRow => ({
    id: engine.id("evt"),
    seq: first_seq + i,
    at: now,
    kind: `target.${change.to}`,
    // The deployment's own status: before its closing event it has not ended.
    status: moved && isTerminal(after.status) ? deployment.status : after.status,
    target_status: change.to,
    robot_id: change.target.robot_id,
    reason: change.reason,
    message: targetSentence(deployment.kind, change),
    actor: change.actor ?? actor,
    data: { target_id: change.target.id, attempt: change.attempt ?? change.target.attempt, ...change.data },
  }));
  if (moved) events.push(deploymentEvent(engine, row, row.event_seq, changes.at(-1)?.actor ?? actor, now));
  await insertEvents(tx, org_id, id, events);
  await followUp(tx, engine, deployment, changes, actor);
  return row;
}

/** The deployment's status once the counters have moved. */
function settle(deployment: DeploymentRow, delta: Counts): { status: DeploymentRow["status"]; reason: Reason | null } {
  if (isTerminal(deployment.status)) return { status: deployment.status, reason: deployment.reason };
  const before = countsOf(deployment);
  const counts = Object.fromEntries(
    Object.entries(before).map(([key, value]) => [key, value + delta[key as keyof Counts]]),
  ) as unknown as Counts;
  const cancel = deployment.cancel_requested_at !== null;
  if (deployment.fan_out_done_at !== null && allEnded(counts)) {
    const status = endOf(counts, cancel);
    return { status, reason: endReason(deployment, status, cancel) };
  }
  if (cancel) return { status: "cancelling", reason: "user_cancelled" };
  if (deployment.status === "queued" && counts.active + counts.applied + counts.failed + counts.rolled_back > 0)
    return { status: "in_progress", reason: null };
  return { status: deployment.status, reason: deployment.reason };
}

function endReason({ target_kind, reason_counts }: DeploymentRow, status: DeploymentRow["status"], cancel: boolean): Reason | null {
  if (status === "cancelled" && cancel) return "user_cancelled";
  // A robot deployment ends exactly as its one target does, with its reason too.
  if (status === "applied") return target_kind === "robot" ? commonestReason(reason_counts, ["applied"]) : null;
  return commonestReason(
    reason_counts,
    status === "failed" ? ["failed", "rolled_back"] : status === "cancelled" ? ["cancelled"] : ["rolled_back"],
  );
}

/** An event of the deployment itself, at the status that the row has. */
export const deploymentEvent = (
  engine: Engine,
  row: DeploymentRow,
  seq: number,
  actor: Actor,
  at: Date,
  extra: { kind?: string; message?: string; data?: Record<string, unknown> } = {},
): EventRow => ({
  id: engine.id("evt"),
  seq,
  at,
  kind: extra.kind ?? `deployment.${row.status}`,
  status: row.status,
  target_status: null,
  robot_id: null,
  reason: row.reason,
  message: extra.message ?? deploymentSentence(row),
  actor,
  data: extra.data ?? {},
});

/** Changes the deployment's own status, with its event. */
export async function moveDeployment(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  to: DeploymentRow["status"],
  reason: Reason | null,
  actor: Actor,
): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const row = await updateDeployment(
    tx,
    deployment.org_id,
    deployment.id,
    { status: to, reason, delta: NO_CHANGE, events: 1, started_at: null, finished_at: isTerminal(to) ? now : null },
    now,
  );
  await insertEvents(tx, row.org_id, row.id, [deploymentEvent(engine, row, row.event_seq, actor, now)]);
  return row;
}

/** Ends a deployment whose targets all ended while it was still being written: no target will move it any more. */
export async function endIfOver(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<DeploymentRow> {
  if (deployment.fan_out_done_at === null || !allEnded(countsOf(deployment))) return deployment;
  const { status, reason } = settle(deployment, NO_CHANGE);
  return status === deployment.status ? deployment : moveDeployment(tx, engine, deployment, status, reason, SYSTEM);
}

/** What else changes when targets do: timelines, those that waited for them, metrics. */
async function followUp(tx: Db, engine: Engine, deployment: DeploymentRow, changes: readonly TargetChange[], actor: Actor): Promise<void> {
  const shown = changes.filter(({ to }) => isTerminal(to) || to === "dispatched" || to === "rolling_back");
  const prefix = deployment.kind === "release" ? "deployment" : "config";
  await recordTimelineMany(
    tx,
    engine,
    shown.map((change) => ({
      org_id: deployment.org_id,
      robot_id: change.target.robot_id,
      kind: `${prefix}.${change.to}`,
      actor: change.to === "dispatched" ? deployment.created_by : (change.actor ?? actor),
      summary: targetSentence(deployment.kind, change),
      data: { deployment_id: deployment.id, release_id: deployment.release_id, reason: change.reason },
    })),
  );
  const ended = changes.filter(({ to }) => isTerminal(to));
  for (const { to } of ended) engine.metrics.targets_ended.inc({ status: to });
  if (ended.length === 0) return;
  await wakeWaitingForPrevious(
    tx,
    deployment.org_id,
    ended.map(({ target }) => target.robot_id),
  );
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
}
