import type { Reason, WaitingFor } from "@roamfleet/protocol";
import { isCommitted, isRevocable } from "./state.ts";
import type { TargetRow } from "./store/rows.ts";

/** The facts from which dispatch decides about one queued target. */
export interface DispatchFacts {
  /** Order number of the target's deployment. */
  order_number: number;
  robot: { online: boolean; decommissioned: boolean; kinds: readonly string[] } | undefined;
  /** The release; undefined for a config, and where the app is to be removed. */
  release: { kind: string; artifact_state: "awaiting_upload" | "stored" | "external" } | "deleted" | undefined;
  /** Open targets of other deployments for the same robot and subject. */
  rivals: readonly (Pick<TargetRow, "id" | "status"> & { order_number: number })[];
  /** The highest order number that was ever dispatched to the same robot and subject; 0: none. */
  last_order_number: number;
  /** Why it may no longer be dispatched: its creator lost access, or the fleet has a different release. Null or absent: it may. */
  denial?: Reason | null;
}

export type Decision = { dispatch: true; supersede: string[] } | { wait: WaitingFor } | { end: "cancelled" | "failed"; reason: Reason };

/** Decides whether a queued target is dispatched now, waits, or ends here. Pure. */
export function decide({ order_number, robot, release, rivals, last_order_number, denial = null }: DispatchFacts): Decision {
  if (robot === undefined || robot.decommissioned) return { end: "cancelled", reason: "robot_removed" };
  if (denial !== null) return { end: "cancelled", reason: denial };
  // A newer deployment was dispatched first; this one would revert it.
  if (last_order_number > order_number) return { end: "cancelled", reason: "superseded" };
  // The release was deleted: a robot that should roll back to it cannot.
  if (release === "deleted") return { end: "failed", reason: "rollback_failed" };
  if (release?.artifact_state === "awaiting_upload") return { wait: "artifact" };
  if (!robot.online) return { wait: "robot_online" };
  if (release !== undefined && !robot.kinds.includes(release.kind)) return { end: "failed", reason: "incompatible" };
  if (rivals.some(({ status }) => isCommitted(status))) return { wait: "previous_deployment" };
  const older = rivals.filter(({ status, ...rival }) => rival.order_number < order_number && (isRevocable(status) || status === "queued"));
  return { dispatch: true, supersede: older.map(({ id }) => id) };
}
