import { type DeploymentStatus, isTerminal, type Reason, type TargetStatus, type TerminalStatus } from "@roamfleet/protocol";
import type { ReportedStatus } from "@roamfleet/protocol/link";
import { MAX_ATTEMPTS_DEFAULT } from "./rollout/whole-rollout.ts";

/**
 * What may become of a target and of a deployment. Pure: no clock, no database; whoever calls it holds the rows locked
 * and writes what it answers.
 */

/** Each attempt goes up this ladder and never down. */
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

/** On the robot's side of the hand-over and not ended: these have a step timeout. */
export const ACTIVE_STATUSES = [
  "dispatched",
  "downloading",
  "staged",
  "installing",
  "verifying",
  "rolling_back",
] as const satisfies readonly TargetStatus[];
/** Up to here nothing has changed on the robot, so that the target can be called off. */
export const REVOCABLE_STATUSES = ["dispatched", "downloading", "staged"] as const satisfies readonly TargetStatus[];

const includes = (statuses: readonly TargetStatus[], status: TargetStatus): boolean => statuses.includes(status);
export const isActive = (status: TargetStatus): boolean => includes(ACTIVE_STATUSES, status);
export const isRevocable = (status: TargetStatus): boolean => includes(REVOCABLE_STATUSES, status);
/** The robot is in the middle of changing what runs: it finishes first, whatever comes. */
export const isCommitted = (status: TargetStatus): boolean => isActive(status) && !isRevocable(status);

/** Dispatches that a target gets before a failure of delivery is final, where no policy says how many. */
export const ATTEMPTS_MAX = MAX_ATTEMPTS_DEFAULT;

/** Failures of the way to the robot, not of the release: another attempt may do. */
const RETRYABLE: readonly Reason[] = ["download_failed", "timeout", "agent_lost"];

/**
 * What the robot is asked for: to install a release or have a config; to take the app off; or, by a rollback that the server
 * asked for after the release was there, to have the release before again, or none.
 */
export type Task = "install" | "remove" | "return" | "return_to_none";

export interface TargetState {
  status: TargetStatus;
  attempt: number;
  /** Absent: `install`. */
  task?: Task;
}

/** The task of a target. */
export function taskOf(target: {
  kind: "release" | "config";
  release_id: string | null;
  previous_release_id: string | null;
  reverting: boolean;
}): Task {
  if (target.reverting) return target.previous_release_id === null ? "return_to_none" : "return";
  return target.kind === "release" && target.release_id === null ? "remove" : "install";
}

/** Whether the target ended with nothing of the app on its robot: rolled back to no release, or asked to remove it. */
export function isRemoved(target: Parameters<typeof taskOf>[0] & { status: TargetStatus }): boolean {
  const task = taskOf(target);
  return (task === "return_to_none" && target.status === "rolled_back") || (task === "remove" && target.status === "applied");
}

export const isReturning = (task: Task | undefined): boolean => task === "return" || task === "return_to_none";

/** What was asked of the whole deployment meanwhile. */
export interface Requests {
  cancel_requested: boolean;
  rollback_requested?: boolean;
  /** Dispatches that a target gets by the policy; absent: the usual number. */
  max_attempts?: number;
}

/** What stands in a deployment's row of it. */
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

/** Whether a deployment may hand a queued target to its robot: one that is paused, stopped, cancelled, going back or expired may not. */
export const mayDispatch = (
  deployment: { status: DeploymentStatus; stop_requested_at: Date | null; expires_at: Date | null },
  now: Date,
): boolean =>
  (deployment.status === "queued" || deployment.status === "in_progress") &&
  deployment.stop_requested_at === null &&
  (deployment.expires_at === null || deployment.expires_at > now);

/** Why a target is called off; null: nobody asked for that. */
export function calledOff({ cancel_requested, rollback_requested }: Requests): Reason | null {
  if (cancel_requested) return "user_cancelled";
  return rollback_requested === true ? "rollback_requested" : null;
}

export type Verdict =
  /** With `reverts` it begins to go back now: the caller dispatches the release before, as the next attempt. */
  { to: TargetStatus; reason: Reason | null; reverts?: true } | { ignored: "ended" | "stale_attempt" | "backwards" | "too_late_to_cancel" };

/** What a robot's report makes of its target. Anything stale, repeated or going backwards is ignored. */
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
  const off = calledOff(context);
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

/** A robot that takes an app off says so in the words of a rollback: here it is what was asked for. */
function ofRemoval({ status, reason }: { status: ReportedStatus; reason: Reason | null }): {
  status: ReportedStatus;
  reason: Reason | null;
} {
  if (status === "rolling_back") return { status: "installing", reason: null };
  return status === "rolled_back" ? { status: "applied", reason: null } : { status, reason };
}

/** The robot was brought the release before, or is to have none; on the way it stays `rolling_back`. */
function afterReturn({ task }: TargetState, status: ReportedStatus): Verdict {
  if (status === (task === "return" ? "applied" : "rolled_back")) return { to: "rolled_back", reason: "rollback_requested" };
  if (status === "cancelled") return { ignored: "too_late_to_cancel" };
  return { to: "failed", reason: "rollback_failed" };
}

function retryOr(target: TargetState, reason: Reason, { max_attempts = ATTEMPTS_MAX }: Requests): Verdict {
  return target.attempt < max_attempts ? { to: "queued", reason } : { to: "failed", reason };
}

/** What becomes of a target whose step took too long. A robot that is away may come back; one that is connected and silent will not. */
export function afterTimeout(target: TargetState, context: Requests & { online: boolean }): { to: TargetStatus; reason: Reason } {
  const reason: Reason = context.online ? "timeout" : "agent_lost";
  if (isRevocable(target.status)) {
    const off = calledOff(context);
    if (off !== null) return { to: "cancelled", reason: off };
    return { to: target.attempt < (context.max_attempts ?? ATTEMPTS_MAX) ? "queued" : "failed", reason };
  }
  if (target.status === "rolling_back") return { to: "failed", reason: "rollback_failed" };
  return { to: "failed", reason };
}

/** A robot that is away may still come back and return, until its deployment expires: its step is not too late yet. */
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

/** The counter that a target of this status is counted in. */
export function counterOf(status: TargetStatus): Exclude<keyof Counts, "total"> {
  return isActive(status) ? "active" : (status as "pending" | "queued" | TerminalStatus);
}

export const allEnded = (counts: Counts): boolean => counts.pending === 0 && counts.queued === 0 && counts.active === 0;

/** Whether nothing can happen to a deployment of this status any more: while it goes back, what is applied still has that before it. */
export const isOver = (counts: Counts, status: DeploymentStatus): boolean =>
  allEnded(counts) && (status !== "rolling_back" || counts.applied === 0);

/** How a deployment ends when every target has: the first rule that matches. Without a threshold any failure fails it. */
export function endOf(counts: Counts, cancel_requested: boolean, too_many_failed = counts.failed + counts.rolled_back > 0): TerminalStatus {
  if (counts.total === 0) return "cancelled";
  if (cancel_requested && counts.cancelled > 0) return "cancelled";
  if (counts.applied === 0 && counts.failed === 0 && counts.rolled_back === 0) return "cancelled";
  if (counts.applied === 0) return counts.failed === 0 ? "rolled_back" : "failed";
  return too_many_failed ? "failed" : "applied";
}
