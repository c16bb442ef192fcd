import type { Reason, TargetStatus, WaitingFor } from "@roamfleet/protocol";

interface Explanation {
  /** Why, as a sentence without its full stop. */
  text: string;
  /** What somebody may do about it. */
  advice?: string;
}

/** Why something ended as it did. Exhaustive: a new reason does not compile without its words. */
const REASONS: Record<Reason, Explanation> = {
  already_installed: { text: "the robot has this release already and is well" },
  timeout: {
    text: "a connected robot did not get on with a step in time",
    advice: "Look into its log around that time, then retry.",
  },
  health_check_failed: {
    text: "the program runs, but its health check says no",
    advice: "The log of the robot around that time says what the check answered.",
  },
  crash_loop: { text: "the program kept ending", advice: "Its last words and its exit code are in the robot's log." },
  download_failed: { text: "the artifact could not be fetched", advice: "Look at the network between the robot and the server." },
  digest_mismatch: {
    text: "what came is not what was pushed, twice",
    advice: "A proxy that changes downloads, or a bad disk, does that.",
  },
  signature_invalid: {
    text: "the robot does not trust who signed the release, or nobody signed it",
    advice: "Sign the release, or put the key on the robot.",
  },
  incompatible: { text: "the robot cannot run this kind of release", advice: "Deploy a kind that its agent knows, or update the agent." },
  insufficient_disk: { text: "too little room on the robot's disk", advice: "Free some: the message names the bytes. Then retry." },
  rejected_by_robot: {
    text: "the robot refused the release or its manifest",
    advice: "The agent's log names the field or the entry.",
  },
  rollback_requested: { text: "a rollback was asked for, or the policy asked for it" },
  rollback_failed: {
    text: "the version before did not come back",
    advice: "Look at the robot: its supervisor keeps trying.",
  },
  superseded: { text: "a newer deployment took its place" },
  expired: { text: "it was not begun before it expired", advice: "Deploy again." },
  no_targets: { text: "no robot was in the fleet when it started", advice: "Enrol robots or move some in, then deploy again." },
  robot_removed: { text: "the robot was decommissioned" },
  scope_lost: {
    text: "its creator may no longer deploy to this robot",
    advice: "Deploy again as someone who may deploy to the robot's fleet.",
  },
  creator_removed: {
    text: "its creator left the organization, or the token was revoked",
    advice: "Deploy again as a member of the organization.",
  },
  user_cancelled: { text: "somebody cancelled it" },
  threshold_exceeded: { text: "too many robots failed", advice: "See why they did, then retry those that failed." },
  agent_lost: {
    text: "the robot went away in the middle of a step and did not come back in time",
    advice: "Deploy again when it is back.",
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
  robot: "the robot holds updates back",
};

const STEPS: Record<TargetStatus, string> = {
  pending: "for a later wave",
  queued: "to be handed over",
  dispatched: "handed over",
  downloading: "fetches the artifact",
  staged: "downloaded and unpacked",
  installing: "switches to the new version",
  verifying: "runs it and is watched",
  rolling_back: "goes back to the version before",
  applied: "runs it and is well",
  failed: "did not work",
  rolled_back: "did not work; the version before runs",
  cancelled: "was not installed",
};

const isKnown = <K extends string>(map: Record<K, unknown>, key: string): key is K => Object.hasOwn(map, key);

/** A reason in words. One that this page does not know is shown by its name. */
export const reasonText = (reason: string): string => (isKnown(REASONS, reason) ? REASONS[reason].text : reason.replaceAll("_", " "));
export const reasonAdvice = (reason: string): string | undefined => (isKnown(REASONS, reason) ? REASONS[reason].advice : undefined);
export const waitingText = (waiting_for: string): string =>
  isKnown(WAITS, waiting_for) ? WAITS[waiting_for] : `waiting for ${waiting_for.replaceAll("_", " ")}`;
export const stepText = (status: string): string => (isKnown(STEPS, status) ? STEPS[status] : status.replaceAll("_", " "));

/** What is to be said of a robot of a deployment beside its status. */
export function targetText(target: { status: string; reason: string | null; waiting_for: string | null; removed?: boolean }): string {
  if (target.removed === true) return "removed; nothing runs";
  if (target.waiting_for !== null) return waitingText(target.waiting_for);
  if (target.reason !== null) return reasonText(target.reason);
  return stepText(target.status);
}
