import type { TargetStatus } from "@roamfleet/protocol";
import type { Rollout } from "@roamfleet/protocol/routes";
import { wholeRollout } from "./rollout/whole-rollout.ts";

const INSTALLING_SECONDS = 900;
/** Every step of a target ends in bounded time; past it the target is tried again or given up. */
const STEP_TIMEOUT_SECONDS: Partial<Record<TargetStatus, number>> = {
  // The robot is connected when it is dispatched; a link that broke meanwhile needs time to come back.
  dispatched: 120,
  // Each progress message starts it anew.
  downloading: 600,
  staged: 600,
  installing: INSTALLING_SECONDS,
  rolling_back: 900,
};
/** Beyond the robot's own verification: it decides, this only ends the waiting. */
const VERIFYING_SLACK_SECONDS = 300;
/** Beside those in which it is watched. */
export const RETURN_SECONDS = INSTALLING_SECONDS + VERIFYING_SLACK_SECONDS;
/** A robot that is connected fetches the release before, when it has it no more, installs it and watches it in this time. */
export const returnDeadline = (verify_seconds: number, now: Date): Date =>
  new Date(now.getTime() + (RETURN_SECONDS + verify_seconds) * 1_000);
/** How long a robot may take to acknowledge that it stopped. */
export const CANCEL_ACK_SECONDS = 60;
const RETRY_BASE_SECONDS = 10;

export function deadlineOf(status: TargetStatus, verify_seconds: number, now: Date): Date | null {
  const seconds = status === "verifying" ? verify_seconds + VERIFYING_SLACK_SECONDS : STEP_TIMEOUT_SECONDS[status];
  return seconds === undefined ? null : new Date(now.getTime() + seconds * 1_000);
}

/** Not before this is a target tried again after its attempt failed: 10 s, 20 s, 40 s … */
export const retryAt = (attempt: number, now: Date): Date => new Date(now.getTime() + RETRY_BASE_SECONDS * 1_000 * 2 ** (attempt - 1));

/** How long a robot watches the new version of a deployment with this policy. */
export const verifySecondsOf = (rollout: Rollout): number => wholeRollout(rollout).verify_seconds;
