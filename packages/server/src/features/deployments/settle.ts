import { isTerminal, type Reason } from "@roamfleet/protocol";
import { commonestReason } from "./reason-counts.ts";
import { isExceeded, isTooMany } from "./rollout/threshold.ts";
import { wholeRollout } from "./rollout/whole-rollout.ts";
import { type Counts, endOf, isOver } from "./state.ts";
import type { DeploymentRow } from "./store/rows.ts";
import { countsOf } from "./wire.ts";

/** The columns of a deployment that determine its status. */
export type Settling = Pick<
  DeploymentRow,
  | "status"
  | "reason"
  | "target_kind"
  | "rollout"
  | "fan_out_done_at"
  | "reason_counts"
  | "count_dispatched"
  | "failures_accepted"
  | "cancel_requested_at"
  | "stop_requested_at"
  | "rollback_requested_at"
> &
  Parameters<typeof countsOf>[0];

export interface Settled {
  status: DeploymentRow["status"];
  reason: Reason | null;
  /** What the policy requires because too many robots have now failed. */
  halt: "stop" | "pause" | "rollback" | null;
}

/** Computes the deployment's status after its counters changed by `delta` and `dispatched` further targets were dispatched. Pure. */
export function settle(deployment: Settling, delta: Counts, dispatched: number): Settled {
  const { status, reason } = deployment;
  if (isTerminal(status)) return { status, reason, halt: null };
  const before = countsOf(deployment);
  const counts = Object.fromEntries(
    Object.entries(before).map(([key, value]) => [key, value + delta[key as keyof Counts]]),
  ) as unknown as Counts;
  const cancel = deployment.cancel_requested_at !== null;
  const halt = haltOf(deployment, counts, dispatched);
  const halted = { ...deployment, reason: halt === "rollback" ? ("threshold_exceeded" as const) : reason };
  const going_back = halt === "rollback" || deployment.rollback_requested_at !== null;
  // During a rollback, `applied` targets have not ended.
  if (deployment.fan_out_done_at !== null && isOver(counts, going_back ? "rolling_back" : status))
    return { ...endSettled(halted, counts, dispatched, { cancel, going_back, halt }), halt };
  if (going_back) return { status: "rolling_back", reason: halted.reason, halt };
  if (cancel) return { status: "cancelling", reason: "user_cancelled", halt };
  if (halt === "pause") return { status: "paused", reason: "threshold_exceeded", halt };
  const stopped = halt === "stop" || deployment.stop_requested_at !== null;
  if (status === "queued" && counts.active + counts.applied + counts.failed + counts.rolled_back > 0)
    return { status: "in_progress", reason: stopped ? "threshold_exceeded" : null, halt };
  return { status, reason: stopped ? "threshold_exceeded" : reason, halt };
}

/** Returns null if it was already stopped, cancelled or rolled back: an earlier decision takes precedence. */
function haltOf(deployment: Settling, counts: Counts, dispatched: number): Settled["halt"] {
  const { cancel_requested_at, stop_requested_at, rollback_requested_at, failures_accepted, status } = deployment;
  if (cancel_requested_at !== null || stop_requested_at !== null || rollback_requested_at !== null) return null;
  const rollout = wholeRollout(deployment.rollout);
  const tally = { ...counts, dispatched: deployment.count_dispatched + dispatched };
  if (!isExceeded(tally, rollout, failures_accepted)) return null;
  return rollout.on_failure === "pause" && status === "paused" ? null : rollout.on_failure;
}

function endSettled(
  deployment: Settling,
  counts: Counts,
  dispatched: number,
  { cancel, going_back, halt }: { cancel: boolean; going_back: boolean; halt: Settled["halt"] },
): { status: DeploymentRow["status"]; reason: Reason | null } {
  const { failure_threshold } = wholeRollout(deployment.rollout);
  const too_many = isTooMany({ ...counts, dispatched: deployment.count_dispatched + dispatched }, failure_threshold);
  const status = endOf(counts, cancel, too_many);
  if (status === "cancelled" && cancel) return { status, reason: "user_cancelled" };
  if (going_back) return { status, reason: status === "failed" ? failedReturn(deployment) : deployment.reason };
  if (halt !== null || deployment.stop_requested_at !== null) return { status, reason: status === "applied" ? null : "threshold_exceeded" };
  return { status, reason: endReason(deployment, status) };
}

/** Returns why a rollback failed; if all robots were rolled back, why the deployment failed before. */
function failedReturn({ reason, reason_counts }: Settling): Reason | null {
  if ((reason_counts.failed?.rollback_failed ?? 0) > 0) return "rollback_failed";
  return reason === "threshold_exceeded" ? reason : commonestReason(reason_counts, ["failed"]);
}

function endReason({ target_kind, reason_counts }: Settling, status: DeploymentRow["status"]): Reason | null {
  // A deployment to one robot ends like its only target, with the same reason.
  if (status === "applied") return target_kind === "robot" ? commonestReason(reason_counts, ["applied"]) : null;
  return commonestReason(
    reason_counts,
    status === "failed" ? ["failed", "rolled_back"] : status === "cancelled" ? ["cancelled"] : ["rolled_back"],
  );
}
