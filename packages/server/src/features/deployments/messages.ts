import { AGENT_APP, type Reason, type TargetStatus } from "@roamfleet/protocol";
import { isRemoved } from "./state.ts";
import type { DeploymentRow, EventRow } from "./store/rows.ts";
import type { TargetChange } from "./store/targets.ts";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { announce, type AnnouncedChange } from "../events/index.ts";

/** Texts of the reasons, each used as the end of a message for users. */
export const REASON_TEXTS: Record<Reason, string> = {
  already_installed: "already installed",
  timeout: "the step timed out",
  health_check_failed: "health check failed",
  crash_loop: "the release crashed repeatedly",
  download_failed: "the download failed",
  digest_mismatch: "the downloaded bytes do not match the checksum of the release",
  signature_invalid: "the signature is not valid",
  incompatible: "the robot cannot run the release",
  insufficient_disk: "not enough disk space on the robot",
  rejected_by_robot: "the robot refused the change",
  rollback_requested: "rollback requested",
  rollback_failed: "the previous version could not be restored",
  superseded: "superseded by a newer deployment",
  expired: "the deployment expired",
  no_targets: "no robots to deploy to",
  robot_removed: "the robot was removed",
  scope_lost: "the creator of the deployment may no longer deploy to this robot",
  creator_removed: "the creator of the deployment was removed, or the token was revoked",
  user_cancelled: "cancellation requested",
  threshold_exceeded: "too many robots failed",
  gate_failed: "the gate of a wave failed",
  agent_lost: "the robot stopped reporting",
};

const STEPS: Record<TargetStatus, string> = {
  pending: "waiting for its wave",
  queued: "queued",
  dispatched: "dispatched",
  downloading: "downloading",
  staged: "downloaded",
  installing: "installing",
  verifying: "verifying",
  rolling_back: "rolling back to the previous version",
  applied: "applied",
  failed: "failed",
  rolled_back: "rolled back",
  cancelled: "cancelled",
};

/** Describes a change of one target: "installing nav-2.4.0", "release nav-2.4.0 applied" or, if it was deleted, "release of nav applied". */
export function targetSentence({ kind, app }: Pick<DeploymentRow, "kind" | "app">, change: TargetChange): string {
  if (isRemoved({ ...change.target, status: change.to }))
    return app === AGENT_APP
      ? "the agent returned to the version from before its first release"
      : `${app === null ? "release" : `release of ${app}`} removed; the app no longer runs`;
  if (change.to === "dispatched" && change.release_tag !== undefined) return `installing ${change.release_tag}`;
  if (change.to === "dispatched" && kind === "config") return "config deployment started";
  const release = change.release_tag ?? (app === null ? "" : `of ${app}`);
  const subject = kind === "config" ? "config" : `release ${release}`.trimEnd();
  const detail = typeof change.data?.detail === "string" ? change.data.detail : undefined;
  const why = change.reason === null ? "" : `: ${detail ?? REASON_TEXTS[change.reason]}`;
  const again = change.to === "queued" && change.target.attempt > 0 ? " again" : "";
  return `${subject} ${STEPS[change.to]}${again}${why}`;
}

const robots = (count: number): string => `${count} robot${count === 1 ? "" : "s"}`;

export function deploymentSentence(row: DeploymentRow): string {
  const why = row.reason === null ? "" : `: ${REASON_TEXTS[row.reason]}`;
  switch (row.status) {
    case "scheduled":
      return `scheduled for ${row.scheduled_at?.toISOString() ?? "later"}`;
    case "queued":
      return "waiting to start";
    case "in_progress":
      return `updating ${robots(row.count_total)}`;
    case "cancelling":
      return "cancelling: robots that have begun to install complete it first";
    case "applied":
      return `applied on ${row.count_applied} of ${robots(row.count_total)}`;
    default:
      return `${row.status.replace("_", " ")}${why}`;
  }
}

/** Publishes each event of a deployment as a change of one of its targets, or of the deployment. */
export function publishEvents(
  tx: Db,
  engine: Pick<Plane, "bus">,
  { org_id, id, kind }: Pick<DeploymentRow, "org_id" | "id" | "kind">,
  events: readonly Pick<EventRow, "kind" | "robot_id" | "status" | "target_status" | "data">[],
): void {
  announce(
    tx,
    engine,
    org_id,
    events.map((event): AnnouncedChange => {
      const { robot_id, target_status, status, data } = event;
      if (robot_id === null || target_status === null || typeof data.target_id !== "string")
        return deploymentChange({ id, kind }, changeOf(event.kind), status);
      return targetChange({ kind, id: data.target_id, robot_id, deployment_id: id, status: target_status }, "status");
    }),
  );
}

/** A change of one target. */
export const targetChange = (
  target: { kind: DeploymentRow["kind"]; id: string; robot_id: string; deployment_id: string; status: TargetStatus },
  change: string,
): AnnouncedChange => ({ ...target, kind: target.kind === "release" ? "target" : "config_target", change });

const changeOf = (kind: string): string => (kind === "deployment.note" ? "updated" : "status");

/** A change of the deployment. */
export const deploymentChange = (
  { id, kind }: Pick<DeploymentRow, "id" | "kind">,
  change: string,
  status?: DeploymentRow["status"],
): AnnouncedChange => ({
  kind: kind === "release" ? "deployment" : "config_deployment",
  id,
  change,
  ...(status === undefined ? {} : { status }),
});
