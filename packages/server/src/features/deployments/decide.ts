import type { Reason, WaitingFor } from "@roamfleet/protocol";
import { cancelReason, isCommitted, isRevocable, requestsOf } from "./state.ts";
import type { AppState } from "./store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";

/** The facts from which dispatch decides about one queued target. */
export interface DispatchFacts {
  /** Order number of the target's deployment. */
  order_number: number;
  robot: { online: boolean; decommissioned: boolean; kinds: readonly string[] } | undefined;
  /** The release; undefined for a config, or if the target removes the app. */
  release: { kind: string; artifact_state: "awaiting_upload" | "stored" | "external" } | "deleted" | undefined;
  /** Open targets of other deployments for the same robot and subject. */
  rivals: readonly (Pick<TargetRow, "id" | "status"> & { order_number: number })[];
  /** The highest order number that was ever dispatched to the same robot and subject; 0 if there is none. */
  last_order_number: number;
  /**
   * Why the target may no longer be dispatched: the deployment's creator lost access, or the fleet has a different release. Null or absent
   * if it may be dispatched.
   */
  denial?: Reason | null;
}

export type Decision = { dispatch: true; supersede: string[] } | { wait: WaitingFor } | { end: "cancelled" | "failed"; reason: Reason };

/** What keeps dispatch from a queued target, in the order in which it is checked. Each returns undefined if it does not apply. */
const OBSTACLES: ((facts: DispatchFacts) => Exclude<Decision, { dispatch: true }> | undefined)[] = [
  ({ robot }) => (robot === undefined || robot.decommissioned ? { end: "cancelled", reason: "robot_removed" } : undefined),
  ({ denial = null }) => (denial === null ? undefined : { end: "cancelled", reason: denial }),
  // A newer deployment was dispatched first. Dispatching this target would revert that deployment.
  ({ last_order_number, order_number }) => (last_order_number > order_number ? { end: "cancelled", reason: "superseded" } : undefined),
  // The release was deleted, so a robot that should roll back to it cannot do so.
  ({ release }) => (release === "deleted" ? { end: "failed", reason: "rollback_failed" } : undefined),
  ({ release }) => (typeof release === "object" && release.artifact_state === "awaiting_upload" ? { wait: "artifact" } : undefined),
  ({ robot }) => (robot?.online === true ? undefined : { wait: "robot_online" }),
  ({ robot, release }) =>
    typeof release === "object" && robot?.kinds.includes(release.kind) === false ? { end: "failed", reason: "incompatible" } : undefined,
  ({ rivals }) => (rivals.some(({ status }) => isCommitted(status)) ? { wait: "previous_deployment" } : undefined),
];

/** Returns everything that keeps a queued target from being dispatched. Pure. */
export const obstaclesOf = (facts: DispatchFacts): Exclude<Decision, { dispatch: true }>[] =>
  OBSTACLES.flatMap((obstacle) => obstacle(facts) ?? []);

/** Decides whether a queued target is dispatched now, waits, or ends here. Pure. */
export function decide(facts: DispatchFacts): Decision {
  for (const obstacle of OBSTACLES) {
    const decision = obstacle(facts);
    if (decision !== undefined) return decision;
  }
  const older = facts.rivals.filter(
    ({ status, order_number }) => order_number < facts.order_number && (isRevocable(status) || status === "queued"),
  );
  return { dispatch: true, supersede: older.map(({ id }) => id) };
}

/** The columns of a deployment that decide whether its targets end early. */
type EndingFacts = Parameters<typeof requestsOf>[0] & Pick<DeploymentRow, "status" | "stop_requested_at" | "expires_at">;

export type Ending =
  | { end: "cancelled" | "failed"; reason: Reason }
  /** The robot is downloading: ask it to stop. It must acknowledge that it stopped. */
  | { ask: true }
  /** The robot runs the deployment's release: roll the robot back. */
  | { roll_back: true };

/**
 * Decides how a target ends early because its deployment has expired, is cancelled, rolls back or was stopped. Returns undefined if the
 * target continues. Pure.
 */
export function decideEnding(
  { status, reverting }: Pick<TargetRow, "status" | "reverting">,
  deployment: EndingFacts,
  now: Date,
): Ending | undefined {
  const { expires_at, stop_requested_at } = deployment;
  if (status === "applied") return deployment.status === "rolling_back" ? { roll_back: true } : undefined;
  const waits = status === "pending" || status === "queued";
  if (expires_at !== null && expires_at <= now) {
    if (status === "rolling_back" && reverting) return { end: "failed", reason: "rollback_failed" };
    return waits || isRevocable(status) ? { end: "cancelled", reason: "expired" } : undefined;
  }
  const reason = cancelReason(requestsOf(deployment)) ?? (stop_requested_at === null ? null : "threshold_exceeded");
  if (reason === null) return undefined;
  if (waits) return { end: "cancelled", reason };
  return reason !== "threshold_exceeded" && isRevocable(status) ? { ask: true } : undefined;
}

export interface RollbackFacts {
  target: Pick<TargetRow, "id" | "release_id" | "previous_release_id">;
  robot: { decommissioned: boolean } | undefined;
  app: Pick<AppState, "current_release_id" | "target_id"> | undefined;
  /** Whether the previous release still exists; true if there was none. */
  previous_exists: boolean;
  /** Why the user who requested the rollback may no longer deploy to the robot; null or absent: they may. */
  denial?: Reason | null;
}

export type Return = { go: true } | { end: "cancelled" | "failed"; reason: Reason };

/** Decides whether a robot that received a deployment's release rolls back, and if not, why. Pure. */
export function decideRollback({ target, robot, app, previous_exists, denial = null }: RollbackFacts): Return {
  if (robot === undefined || robot.decommissioned) return { end: "cancelled", reason: "robot_removed" };
  if (denial !== null) return { end: "cancelled", reason: denial };
  const newer_under_way = app !== undefined && app.target_id !== null && app.target_id !== target.id;
  if (newer_under_way || (app?.current_release_id ?? null) !== target.release_id) return { end: "cancelled", reason: "superseded" };
  return previous_exists ? { go: true } : { end: "failed", reason: "rollback_failed" };
}
