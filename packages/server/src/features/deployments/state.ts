import { isTerminal, type Reason, type TargetStatus, type TerminalStatus } from "@robofleet/protocol";
import type { ReportedStatus } from "@robofleet/protocol/link";

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

/** Dispatches that a target gets before a failure of delivery is final. */
export const ATTEMPTS_MAX = 3;

/** Failures of the way to the robot, not of the release: another attempt may do. */
const RETRYABLE: readonly Reason[] = ["download_failed", "timeout", "agent_lost"];

export interface TargetState {
  status: TargetStatus;
  attempt: number;
}

export type Verdict =
  | { to: TargetStatus; reason: Reason | null }
  | { ignored: "ended" | "stale_attempt" | "backwards" | "too_late_to_cancel" };

/** What a robot's report makes of its target. Anything stale, repeated or going backwards is ignored. */
export function afterReport(
  target: TargetState,
  report: { status: ReportedStatus; attempt: number; reason: Reason | null },
  context: { cancel_requested: boolean },
): Verdict {
  if (isTerminal(target.status)) return { ignored: "ended" };
  if (report.attempt !== target.attempt || !isActive(target.status)) return { ignored: "stale_attempt" };
  if (LADDER[report.status] <= LADDER[target.status]) return { ignored: "backwards" };
  if (report.status === "cancelled") {
    if (!isRevocable(target.status)) return { ignored: "too_late_to_cancel" };
    return context.cancel_requested ? { to: "cancelled", reason: "user_cancelled" } : retryOr(target, "agent_lost");
  }
  if (report.status === "failed" && report.reason !== null && RETRYABLE.includes(report.reason) && isRevocable(target.status)) {
    if (context.cancel_requested) return { to: "cancelled", reason: "user_cancelled" };
    return retryOr(target, report.reason);
  }
  return { to: report.status, reason: report.reason };
}

function retryOr(target: TargetState, reason: Reason): Verdict {
  return target.attempt < ATTEMPTS_MAX ? { to: "queued", reason } : { to: "failed", reason };
}

/** What becomes of a target whose step took too long. A robot that is away may come back; one that is connected and silent will not. */
export function afterTimeout(
  target: TargetState,
  context: { cancel_requested: boolean; online: boolean },
): { to: TargetStatus; reason: Reason } {
  const reason: Reason = context.online ? "timeout" : "agent_lost";
  if (isRevocable(target.status)) {
    if (context.cancel_requested) return { to: "cancelled", reason: "user_cancelled" };
    return { to: target.attempt < ATTEMPTS_MAX ? "queued" : "failed", reason };
  }
  if (target.status === "rolling_back") return { to: "failed", reason: "rollback_failed" };
  return { to: "failed", reason };
}

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

/** How a deployment ends when every target has: the first rule that matches. More than no failure at all fails it. */
export function endOf(counts: Counts, cancel_requested: boolean): TerminalStatus {
  if (counts.total === 0) return "cancelled";
  if (cancel_requested && counts.cancelled > 0) return "cancelled";
  if (counts.applied === 0 && counts.failed === 0 && counts.rolled_back === 0) return "cancelled";
  if (counts.applied === 0) return counts.failed === 0 ? "rolled_back" : "failed";
  if (counts.failed + counts.rolled_back > 0) return "failed";
  return "applied";
}
