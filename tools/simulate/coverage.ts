import { DEPLOYMENT_STATUSES, type DeploymentStatus, TARGET_STATUSES, type TargetStatus } from "@roamfleet/protocol";
import type { DeploymentView, OperationType, TargetView, View } from "./server.ts";

/**
 * Counts which events occurred in which states, as `<what> <state> <event>`. Events of targets are robots' reports and other changes;
 * events of deployments are operations and changes.
 */
export class Coverage {
  readonly visited = new Map<string, number>();

  add(pair: string): void {
    this.visited.set(pair, (this.visited.get(pair) ?? 0) + 1);
  }

  /** Counts a robot's report. */
  report(target: TargetView | undefined, attempt: number, status: string): void {
    if (target !== undefined) this.add(`target ${target.status} hears:${eventOf(target, attempt, status)}`);
  }

  operation(deployment: DeploymentView | undefined, type: OperationType): void {
    if (deployment !== undefined) this.add(`deployment ${deployment.status} ${type}`);
  }

  /** Counts the status changes in a step: those of deployments and, unless the step delivered a report, those of targets. */
  moves(before: View, after: View, reported: boolean): void {
    const deployments = new Map(after.deployments.map((one) => [one.id, one]));
    for (const from of before.deployments) {
      const to = deployments.get(from.id);
      if (to !== undefined && to.status !== from.status) this.add(`deployment ${from.status} became:${fate(to.status)}`);
    }
    if (reported) return;
    const targets = new Map(after.targets.map((one) => [one.id, one]));
    for (const from of before.targets) {
      const to = targets.get(from.id);
      if (to !== undefined && (to.status !== from.status || to.attempt !== from.attempt))
        this.add(`target ${from.status} became:${becoming(from.status, to.status)}`);
    }
  }

  merge(other: ReadonlyMap<string, number>): void {
    for (const [pair, count] of other) this.visited.set(pair, (this.visited.get(pair) ?? 0) + count);
  }
}

/** Names the change of a deployment. All failures are one event. */
const fate = (status: DeploymentStatus): string => (status === "failed" || status === "rolled_back" ? "failed" : status);

const REVOCABLE: readonly TargetStatus[] = ["dispatched", "downloading", "staged"];

/** Names the change of a target without a report. A timeout requeues the target, or fails it after its last attempt. */
const becoming = (from: TargetStatus, to: TargetStatus): string =>
  REVOCABLE.includes(from) && (to === "queued" || to === "failed") ? "times_out" : to;

const STEPS = ["dispatched", "downloading", "staged", "installing", "verifying", "rolling_back"];

/** Classifies a report by the state of its target. It may be about an earlier attempt, an earlier step or a later step, or be final. */
function eventOf(target: TargetView, attempt: number, status: string): string {
  const at = STEPS.indexOf(target.status);
  if (at === -1) return "late";
  // A report of an earlier attempt. Most of these arrive immediately after the next attempt was dispatched.
  if (attempt !== target.attempt) return at === 0 || target.status === "rolling_back" ? "stale" : "repeated";
  const to = STEPS.indexOf(status);
  if (to !== -1 && to <= at) return "repeated";
  if (to === -1 && (target.status === "rolling_back" || target.status === "dispatched")) return "ended";
  const changing = target.status === "installing" || target.status === "verifying";
  if (status === "failed" || status === "rolled_back" || (status === "rolling_back" && changing)) return "goes_back";
  return to !== -1 || (status === "applied" && target.status === "installing") ? "step" : status;
}

const OPERATIONS: readonly OperationType[] = ["cancel", "pause", "resume", "promote", "retry", "rollback"];

/** The statuses that each status of a deployment may change to. Operations are possible in every status. */
const DEPLOYMENT_MOVES: Record<DeploymentStatus, readonly string[]> = {
  scheduled: ["queued", "in_progress", "failed", "cancelled"],
  queued: ["in_progress", "paused", "rolling_back", "failed", "cancelled"],
  in_progress: ["paused", "cancelling", "rolling_back", "applied", "failed", "cancelled"],
  paused: ["queued", "in_progress", "cancelling", "rolling_back", "applied", "failed", "cancelled"],
  rolling_back: ["failed", "cancelled"],
  cancelling: ["applied", "failed", "cancelled"],
  applied: [],
  failed: [],
  rolled_back: [],
  cancelled: [],
};

/** For each status of a target, the possible reports of its robot, and the possible changes without a report. */
const TARGET_EVENTS: Record<TargetStatus, { hears: readonly string[]; becomes: readonly string[] }> = {
  pending: { hears: [], becomes: ["queued", "cancelled"] },
  queued: { hears: ["late"], becomes: ["dispatched", "failed", "cancelled"] },
  dispatched: { hears: ["step", "ended", "stale"], becomes: ["times_out", "cancelled"] },
  downloading: { hears: ["step", "applied", "goes_back", "cancelled", "repeated"], becomes: ["times_out", "cancelled"] },
  staged: { hears: ["step", "applied", "goes_back", "cancelled", "repeated"], becomes: ["times_out", "cancelled"] },
  installing: { hears: ["step", "goes_back", "repeated"], becomes: ["failed", "cancelled"] },
  verifying: { hears: ["applied", "goes_back", "repeated"], becomes: ["failed", "cancelled"] },
  rolling_back: { hears: ["ended", "repeated", "stale"], becomes: ["failed", "cancelled"] },
  applied: { hears: ["late"], becomes: ["rolling_back", "cancelled"] },
  failed: { hears: ["late"], becomes: [] },
  rolled_back: { hears: ["late"], becomes: [] },
  cancelled: { hears: ["late"], becomes: [] },
};

/** All pairs that can occur. */
export const LEGAL_PAIRS: readonly string[] = [
  ...DEPLOYMENT_STATUSES.flatMap((status) => [
    ...OPERATIONS.map((operation) => `deployment ${status} ${operation}`),
    ...DEPLOYMENT_MOVES[status].map((to) => `deployment ${status} became:${to}`),
  ]),
  ...TARGET_STATUSES.flatMap((status) => [
    ...TARGET_EVENTS[status].hears.map((event) => `target ${status} hears:${event}`),
    ...TARGET_EVENTS[status].becomes.map((to) => `target ${status} became:${to}`),
  ]),
];
