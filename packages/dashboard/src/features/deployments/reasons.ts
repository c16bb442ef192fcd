import type { Reason, TargetStatus, WaitingFor } from "@roamfleet/protocol";

interface Explanation {
  /** The reason, without a full stop. */
  text: string;
  /** A suggested next step. */
  advice?: string;
}

/** Texts for all reasons. Exhaustive: a new reason without a text does not compile. */
const REASONS: Record<Reason, Explanation> = {
  already_installed: { text: "the robot already runs this release and is healthy" },
  timeout: {
    text: "a step on a connected robot timed out",
    advice: "Check the robot's log around that time, then retry.",
  },
  health_check_failed: {
    text: "health check failed",
    advice: "The robot's log around that time contains the output of the check.",
  },
  crash_loop: { text: "crash loop", advice: "The robot's log contains the last output and the exit code of the program." },
  download_failed: { text: "download of the artifact failed", advice: "Check the network between the robot and the server." },
  digest_mismatch: {
    text: "the downloaded artifact had the wrong digest twice",
    advice: "Possible causes: a proxy that changes downloads, or a failing disk.",
  },
  signature_invalid: {
    text: "the release is not signed with a key that the robot trusts",
    advice: "Sign the release with a trusted key, or install the key on the robot.",
  },
  incompatible: {
    text: "the robot does not support this kind of release",
    advice: "Deploy a kind that its agent supports, or update the agent.",
  },
  insufficient_disk: { text: "not enough disk space on the robot", advice: "Free the space that the message names, then retry." },
  rejected_by_robot: {
    text: "the robot refused the release or its manifest",
    advice: "The agent's log names the invalid field or archive entry.",
  },
  rollback_requested: { text: "a rollback was requested by a user or by the policy" },
  rollback_failed: {
    text: "the previous version did not start again",
    advice: "Check the robot. Its supervisor keeps restarting the previous version.",
  },
  superseded: { text: "replaced by a newer deployment" },
  expired: { text: "not started before it expired", advice: "Deploy again." },
  no_targets: { text: "the fleet had no robots at the start", advice: "Enroll robots or move some to the fleet, then deploy again." },
  robot_removed: { text: "robot decommissioned" },
  scope_lost: {
    text: "its creator may no longer deploy to this robot",
    advice: "Deploy again as someone who may deploy to the robot's fleet.",
  },
  creator_removed: {
    text: "its creator left the organization, or the token was revoked",
    advice: "Deploy again as a member of the organization.",
  },
  user_cancelled: { text: "cancelled by a user" },
  threshold_exceeded: { text: "too many robots failed", advice: "Check why the robots failed, then retry on them." },
  agent_lost: {
    text: "the robot disconnected during a step and did not reconnect in time",
    advice: "Deploy again when the robot is online.",
  },
};

const WAITS: Record<WaitingFor, string> = {
  robot_online: "robot offline: starts when it connects",
  slot: "concurrency limit reached",
  window: "waiting for its maintenance window",
  artifact: "waiting for the artifact to be uploaded",
  previous_deployment: "waiting for an older deployment to finish installing",
  gate: "awaiting promotion",
  approval: "an admin must approve the robot: its config has secrets",
  robot: "updates blocked by the robot",
};

const STEPS: Record<TargetStatus, string> = {
  pending: "in a later wave",
  queued: "queued",
  dispatched: "sent to the robot",
  downloading: "downloading the artifact",
  staged: "downloaded and unpacked",
  installing: "switching to the new version",
  verifying: "verifying",
  rolling_back: "rolling back to the previous version",
  applied: "healthy",
  failed: "failed",
  rolled_back: "failed; previous version restored",
  cancelled: "not installed",
};

const isKnown = <K extends string>(map: Record<K, unknown>, key: string): key is K => Object.hasOwn(map, key);

/** Returns the text of a reason. An unknown reason is shown by its name. */
export const reasonText = (reason: string): string => (isKnown(REASONS, reason) ? REASONS[reason].text : reason.replaceAll("_", " "));
export const reasonAdvice = (reason: string): string | undefined => (isKnown(REASONS, reason) ? REASONS[reason].advice : undefined);
export const waitingText = (waiting_for: string): string =>
  isKnown(WAITS, waiting_for) ? WAITS[waiting_for] : `waiting for ${waiting_for.replaceAll("_", " ")}`;
export const stepText = (status: string): string => (isKnown(STEPS, status) ? STEPS[status] : status.replaceAll("_", " "));

/** Returns the details of a robot in a deployment: what it waits for, otherwise the reason of its status, otherwise its step. */
export function targetText(target: { status: string; reason: string | null; waiting_for: string | null; removed?: boolean }): string {
  if (target.removed === true) return "app removed from the robot";
  if (target.waiting_for !== null) return waitingText(target.waiting_for);
  if (target.reason !== null) return reasonText(target.reason);
  return stepText(target.status);
}
