import { type DeploymentStatus, isTerminal, type Reason, type TargetStatus, type TerminalStatus } from "@roamfleet/protocol";
import type { ReportedStatus } from "@roamfleet/protocol/link";
import { MAX_ATTEMPTS_DEFAULT, wholeRollout } from "./policy.ts";
import { isExceeded, isTooMany } from "./rollout/rules.ts";
import type { DeploymentRow, ReasonCounts } from "./store/rows.ts";

/**
 * The state machine of targets and deployments. Pure: no clock and no database. The caller has locked the rows and writes the results.
 */

/** Rank of each status. Within an attempt, a target only moves to a higher rank. */
const LADDER: Record<TargetStatus, number> = {
  pending: 0,
  queued: 1,
  dispatched: 2,
  downloading: 3,
  staged: 4,
  installing: 5,
  verifying: 6,
  rolling_back: 7,
  applied: 8,
  failed: 8,
  rolled_back: 8,
  cancelled: 8,
};

/** Statuses of targets that were dispatched and have not ended. Each has a step timeout. */
export const ACTIVE_STATUSES = [
  "dispatched",
  "downloading",
  "staged",
  "installing",
  "verifying",
  "rolling_back",
] as const satisfies readonly TargetStatus[];
/** Statuses in which the robot has not changed anything yet, so the target can still be cancelled. */
export const REVOCABLE_STATUSES = ["dispatched", "downloading", "staged"] as const satisfies readonly TargetStatus[];

const includes = (statuses: readonly TargetStatus[], status: TargetStatus): boolean => statuses.includes(status);
export const isActive = (status: TargetStatus): boolean => includes(ACTIVE_STATUSES, status);
export const isRevocable = (status: TargetStatus): boolean => includes(REVOCABLE_STATUSES, status);
/** Whether the robot is already changing what it runs. Such a robot finishes first, regardless of requests. */
export const isCommitted = (status: TargetStatus): boolean => isActive(status) && !isRevocable(status);

/** Default for the maximum number of attempts before a delivery failure is final. */
export const ATTEMPTS_MAX = MAX_ATTEMPTS_DEFAULT;

/** Failures of the delivery, not of the release: another attempt may succeed. */
const RETRYABLE: readonly Reason[] = ["download_failed", "timeout", "agent_lost"];

/**
 * What the robot is asked to do: install a release or config, or remove the app. In a rollback that the server requests after the release
 * was applied: return to the previous release, or to no release.
 */
export type Task = "install" | "remove" | "return" | "return_to_none";

export interface TargetState {
  status: TargetStatus;
  attempt: number;
  /** What the robot is asked to do. Default: `install`. */
  task?: Task;
}

/** Returns the task of a target. */
export function taskOf(target: {
  kind: "release" | "config";
  release_id: string | null;
  previous_release_id: string | null;
  reverting: boolean;
}): Task {
  if (target.reverting) return target.previous_release_id === null ? "return_to_none" : "return";
  return target.kind === "release" && target.release_id === null ? "remove" : "install";
}

/** Whether the target ended with the app removed from its robot: rolled back to no release, or removed on request. */
export function isRemoved(target: Parameters<typeof taskOf>[0] & { status: TargetStatus }): boolean {
  const task = taskOf(target);
  return (task === "return_to_none" && target.status === "rolled_back") || (task === "remove" && target.status === "applied");
}

export const isReturning = (task: Task | undefined): boolean => task === "return" || task === "return_to_none";

/** Requests that apply to the whole deployment. */
export interface Requests {
  cancel_requested: boolean;
  rollback_requested?: boolean;
  /** Maximum attempts per target by the policy; absent: the default. */
  max_attempts?: number;
}

/** Reads the requests from a deployment's row. */
export const requestsOf = (deployment: {
  cancel_requested_at: Date | null;
  cancel_mode: "finish" | "rollback" | null;
  rollback_requested_at: Date | null;
  rollout: { max_attempts?: number };
}): Requests => ({
  max_attempts: deployment.rollout.max_attempts ?? ATTEMPTS_MAX,
  cancel_requested: deployment.cancel_requested_at !== null,
  rollback_requested: deployment.rollback_requested_at !== null || deployment.cancel_mode === "rollback",
});

/** Whether a queued target may be dispatched: not if its deployment is paused, stopped, cancelled, rolling back or expired. */
export const mayDispatch = (
  deployment: { status: DeploymentStatus; stop_requested_at: Date | null; expires_at: Date | null },
  now: Date,
): boolean =>
  (deployment.status === "queued" || deployment.status === "in_progress") &&
  deployment.stop_requested_at === null &&
  (deployment.expires_at === null || deployment.expires_at > now);

/** Returns why targets are cancelled; null if neither a cancellation nor a rollback was requested. */
export function cancelReason({ cancel_requested, rollback_requested }: Requests): Reason | null {
  if (cancel_requested) return "user_cancelled";
  return rollback_requested === true ? "rollback_requested" : null;
}

export type Verdict =
  /** With `reverts`, the target's rollback begins now: the caller dispatches the previous release as the next attempt. */
  { to: TargetStatus; reason: Reason | null; reverts?: true } | { ignored: "ended" | "stale_attempt" | "backwards" | "too_late_to_cancel" };

/** Decides what a robot's report changes about its target. Stale, repeated and backward reports are ignored. */
export function afterReport(
  target: TargetState,
  report: { status: ReportedStatus; attempt: number; reason: Reason | null },
  context: Requests,
): Verdict {
  if (isTerminal(target.status)) return { ignored: "ended" };
  if (report.attempt !== target.attempt || !isActive(target.status)) return { ignored: "stale_attempt" };
  const { status, reason } = target.task === "remove" ? ofRemoval(report) : report;
  if (LADDER[status] <= LADDER[target.status]) return { ignored: "backwards" };
  if (isReturning(target.task)) return afterReturn(target, status);
  const off = cancelReason(context);
  if (status === "cancelled") {
    if (!isRevocable(target.status)) return { ignored: "too_late_to_cancel" };
    return off === null ? retryOr(target, "agent_lost", context) : { to: "cancelled", reason: off };
  }
  if (status === "failed" && reason !== null && RETRYABLE.includes(reason) && isRevocable(target.status))
    return off === null ? retryOr(target, reason, context) : { to: "cancelled", reason: off };
  if (status === "applied" && context.rollback_requested === true)
    return { to: "rolling_back", reason: "rollback_requested", reverts: true };
  return { to: status, reason };
}

/**
 * Converts the report of a robot that was asked to remove an app. Robots report a removal as a rollback; the result has the statuses of an
 * installation, because the removal was requested.
 */
function ofRemoval({ status, reason }: { status: ReportedStatus; reason: Reason | null }): {
  status: ReportedStatus;
  reason: Reason | null;
} {
  if (status === "rolling_back") return { status: "installing", reason: null };
  return status === "rolled_back" ? { status: "applied", reason: null } : { status, reason };
}

/**
 * Decides what a report changes during a rollback to the previous release or to no release. Until the rollback ends, the target stays
 * `rolling_back`.
 */
function afterReturn({ task }: TargetState, status: ReportedStatus): Verdict {
  if (status === (task === "return" ? "applied" : "rolled_back")) return { to: "rolled_back", reason: "rollback_requested" };
  if (status === "cancelled") return { ignored: "too_late_to_cancel" };
  return { to: "failed", reason: "rollback_failed" };
}

function retryOr(target: TargetState, reason: Reason, { max_attempts = ATTEMPTS_MAX }: Requests): Verdict {
  return target.attempt < max_attempts ? { to: "queued", reason } : { to: "failed", reason };
}

/**
 * Decides about a target whose step timed out. If the robot has changed nothing yet, the target is cancelled if that was requested,
 * otherwise retried while attempts remain. In all other cases it fails.
 */
export function afterTimeout(target: TargetState, context: Requests & { online: boolean }): { to: TargetStatus; reason: Reason } {
  const reason: Reason = context.online ? "timeout" : "agent_lost";
  if (isRevocable(target.status)) {
    const off = cancelReason(context);
    if (off !== null) return { to: "cancelled", reason: off };
    return { to: target.attempt < (context.max_attempts ?? ATTEMPTS_MAX) ? "queued" : "failed", reason };
  }
  if (target.status === "rolling_back") return { to: "failed", reason: "rollback_failed" };
  return { to: "failed", reason };
}

/**
 * Whether to keep waiting for an offline robot that must roll back. The robot may reconnect until its deployment expires, so the step does
 * not time out before the expiry.
 */
export const isAwaited = ({ task }: TargetState, { online }: { online: boolean }): boolean => isReturning(task) && !online;

export interface Counts {
  total: number;
  pending: number;
  queued: number;
  active: number;
  applied: number;
  failed: number;
  rolled_back: number;
  cancelled: number;
}

type CountedRow = { [counter in keyof Counts as `count_${counter}`]: number };

/** Reads the counters of a deployment or wave from its row. */
export const countsOf = (row: CountedRow): Counts => ({
  total: row.count_total,
  pending: row.count_pending,
  queued: row.count_queued,
  active: row.count_active,
  applied: row.count_applied,
  failed: row.count_failed,
  rolled_back: row.count_rolled_back,
  cancelled: row.count_cancelled,
});

/** Returns the counter in which a target of this status is counted. */
export function counterOf(status: TargetStatus): Exclude<keyof Counts, "total"> {
  return isActive(status) ? "active" : (status as "pending" | "queued" | TerminalStatus);
}

export const allEnded = (counts: Counts): boolean => counts.pending === 0 && counts.queued === 0 && counts.active === 0;

/** Whether a deployment of this status can no longer change. During a rollback, `applied` targets still have to roll back. */
export const isOver = (counts: Counts, status: DeploymentStatus): boolean =>
  allEnded(counts) && (status !== "rolling_back" || counts.applied === 0);

/**
 * Returns the final status of a deployment. All of its targets must have ended. By default, one failed or rolled-back target is too many.
 */
export function endOf(counts: Counts, cancel_requested: boolean, too_many_failed = counts.failed + counts.rolled_back > 0): TerminalStatus {
  if (counts.total === 0) return "cancelled";
  if (cancel_requested && counts.cancelled > 0) return "cancelled";
  if (counts.applied === 0 && counts.failed === 0 && counts.rolled_back === 0) return "cancelled";
  if (counts.applied === 0) return counts.failed === 0 ? "rolled_back" : "failed";
  return too_many_failed ? "failed" : "applied";
}

interface Ended {
  status: TargetStatus;
  reason: Reason | null;
}

/** Returns the numbers of ended targets by status and reason after these moves. Pure. */
export function countReasons(
  counts: ReasonCounts,
  moves: readonly { target: Ended; to: TargetStatus; reason: Reason | null }[],
): ReasonCounts {
  const next: Partial<Record<TargetStatus, Partial<Record<Reason | "", number>>>> = { ...counts };
  const add = ({ status, reason }: Ended, by: number): void => {
    if (!isTerminal(status)) return;
    const { [reason ?? ""]: count = 0, ...others } = next[status] ?? {};
    next[status] = count + by === 0 ? others : { ...others, [reason ?? ""]: count + by };
  };
  for (const { target, to, reason } of moves) {
    add(target, -1);
    add({ status: to, reason }, 1);
  }
  return next;
}

/** Returns the most frequent reason of targets with one of these statuses; in a tie, the first by name. Pure. */
export function commonestReason(counts: ReasonCounts, statuses: readonly TargetStatus[]): Reason | null {
  const sums = new Map<Reason | "", number>();
  for (const status of statuses)
    for (const [reason, count] of Object.entries(counts[status] ?? {}))
      sums.set(reason as Reason | "", (sums.get(reason as Reason | "") ?? 0) + count);
  // The empty reason sorts after all other reasons.
  const order = (reason: string): string => (reason === "" ? "~" : reason);
  const [first] = [...sums].toSorted(([a, m], [b, n]) => n - m || (order(a) < order(b) ? -1 : 1));
  return first === undefined || first[0] === "" ? null : first[0];
}

/** The columns of a deployment that determine its status. */
type FinalizeFacts = Pick<
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

export interface Finalized {
  status: DeploymentRow["status"];
  reason: Reason | null;
  /** What the policy requires because too many robots have now failed. */
  halt: "stop" | "pause" | "rollback" | null;
}

/** Computes the deployment's status after its counters changed by `delta` and `dispatched` further targets were dispatched. Pure. */
export function finalizeDeployment(deployment: FinalizeFacts, delta: Counts, dispatched: number): Finalized {
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
    return { ...endReached(halted, counts, dispatched, { cancel, going_back, halt }), halt };
  if (going_back) return { status: "rolling_back", reason: halted.reason, halt };
  if (cancel) return { status: "cancelling", reason: "user_cancelled", halt };
  if (halt === "pause") return { status: "paused", reason: "threshold_exceeded", halt };
  const stopped = halt === "stop" || deployment.stop_requested_at !== null;
  if (status === "queued" && counts.active + counts.applied + counts.failed + counts.rolled_back > 0)
    return { status: "in_progress", reason: stopped ? "threshold_exceeded" : null, halt };
  return { status, reason: stopped ? "threshold_exceeded" : reason, halt };
}

/**
 * Returns what the policy requires if too many robots failed, otherwise null. Also null if the deployment was already stopped, cancelled or
 * rolled back, because the earlier decision takes precedence.
 */
function haltOf(deployment: FinalizeFacts, counts: Counts, dispatched: number): Finalized["halt"] {
  const { cancel_requested_at, stop_requested_at, rollback_requested_at, failures_accepted, status } = deployment;
  if (cancel_requested_at !== null || stop_requested_at !== null || rollback_requested_at !== null) return null;
  const rollout = wholeRollout(deployment.rollout);
  const tally = { ...counts, dispatched: deployment.count_dispatched + dispatched };
  if (!isExceeded(tally, rollout, failures_accepted)) return null;
  return rollout.on_failure === "pause" && status === "paused" ? null : rollout.on_failure;
}

function endReached(
  deployment: FinalizeFacts,
  counts: Counts,
  dispatched: number,
  { cancel, going_back, halt }: { cancel: boolean; going_back: boolean; halt: Finalized["halt"] },
): { status: DeploymentRow["status"]; reason: Reason | null } {
  const { failure_threshold } = wholeRollout(deployment.rollout);
  const too_many = isTooMany({ ...counts, dispatched: deployment.count_dispatched + dispatched }, failure_threshold);
  const status = endOf(counts, cancel, too_many);
  if (status === "cancelled" && cancel) return { status, reason: "user_cancelled" };
  if (going_back) return { status, reason: status === "failed" ? failedReturn(deployment) : deployment.reason };
  if (halt !== null || deployment.stop_requested_at !== null) return { status, reason: status === "applied" ? null : "threshold_exceeded" };
  return { status, reason: endReason(deployment, status) };
}

/**
 * Returns the reason of a rolled-back deployment that ended `failed`: `rollback_failed` if a robot could not roll back. Otherwise returns
 * why the deployment failed before its rollback.
 */
function failedReturn({ reason, reason_counts }: FinalizeFacts): Reason | null {
  if ((reason_counts.failed?.rollback_failed ?? 0) > 0) return "rollback_failed";
  return reason === "threshold_exceeded" ? reason : commonestReason(reason_counts, ["failed"]);
}

function endReason({ target_kind, reason_counts }: FinalizeFacts, status: DeploymentRow["status"]): Reason | null {
  // A deployment to one robot ends like its only target, with the same reason.
  if (status === "applied") return target_kind === "robot" ? commonestReason(reason_counts, ["applied"]) : null;
  return commonestReason(
    reason_counts,
    status === "failed" ? ["failed", "rolled_back"] : status === "cancelled" ? ["cancelled"] : ["rolled_back"],
  );
}
