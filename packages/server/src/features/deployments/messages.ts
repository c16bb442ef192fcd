import type { Reason, TargetStatus } from "@roamfleet/protocol";
import { isRemoved } from "./state.ts";
import type { DeploymentRow } from "./store/rows.ts";
import type { TargetChange } from "./store/targets.ts";

/** What a reason means, as the end of a sentence for people. */
const REASONS: Record<Reason, string> = {
  already_installed: "it was there already",
  timeout: "the step took too long",
  health_check_failed: "its health check failed",
  crash_loop: "it kept crashing",
  download_failed: "the download failed",
  digest_mismatch: "the bytes are not those of the release",
  signature_invalid: "its signature is not valid",
  incompatible: "this robot cannot run it",
  insufficient_disk: "the robot's disk is too full",
  rejected_by_robot: "the robot refused it",
  rollback_requested: "a rollback was asked for",
  rollback_failed: "the version before could not be brought back",
  superseded: "a newer deployment took its place",
  expired: "it was not done before it expired",
  no_targets: "there is no robot to deploy to",
  robot_removed: "the robot was removed",
  scope_lost: "its creator may no longer deploy to this robot",
  creator_removed: "its creator was removed, or the token was revoked",
  user_cancelled: "it was cancelled",
  threshold_exceeded: "too many robots failed",
  agent_lost: "the robot was not heard of any more",
};

const STEPS: Record<TargetStatus, string> = {
  pending: "waits for its wave",
  queued: "queued",
  dispatched: "dispatched to the robot",
  downloading: "downloading",
  staged: "downloaded and unpacked",
  installing: "installing",
  verifying: "running and being watched",
  rolling_back: "going back to the version before",
  applied: "applied",
  failed: "failed",
  rolled_back: "rolled back",
  cancelled: "cancelled",
};

/** What became of one robot of a deployment: "release of nav applied". */
export function targetSentence({ kind, app }: Pick<DeploymentRow, "kind" | "app">, change: TargetChange): string {
  if (isRemoved({ ...change.target, status: change.to })) return `${app === null ? "release" : `release of ${app}`} removed; nothing runs`;
  const subject = kind === "config" ? "config" : app === null ? "release" : `release of ${app}`;
  const detail = typeof change.data?.detail === "string" ? change.data.detail : undefined;
  const why = change.reason === null ? "" : `: ${detail ?? REASONS[change.reason]}`;
  const again = change.to === "queued" && change.target.attempt > 0 ? " again" : "";
  return `${subject} ${STEPS[change.to]}${again}${why}`;
}

const robots = (count: number): string => `${count} robot${count === 1 ? "" : "s"}`;

export function deploymentSentence(row: DeploymentRow): string {
  const why = row.reason === null ? "" : `: ${REASONS[row.reason]}`;
  switch (row.status) {
    case "scheduled":
      return `held until ${row.scheduled_at?.toISOString() ?? "its time"}`;
    case "queued":
      return "ready to go out";
    case "in_progress":
      return `going out to ${robots(row.count_total)}`;
    case "cancelling":
      return "stopping; robots that have begun to install finish first";
    case "applied":
      return `applied on ${row.count_applied} of ${robots(row.count_total)}`;
    default:
      return `${row.status.replace("_", " ")}${why}`;
  }
}
