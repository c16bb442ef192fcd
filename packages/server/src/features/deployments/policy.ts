import type { TargetStatus } from "@roamfleet/protocol";
import type { Rollout } from "@roamfleet/protocol/routes";
import { wholeRollout } from "./rollout/whole-rollout.ts";

const INSTALLING_SECONDS = 900;
/** Timeout of each step of a target; after it the target is retried or fails. */
const STEP_TIMEOUT_SECONDS: Partial<Record<TargetStatus, number>> = {
  // The robot is connected when its target is dispatched; a link that breaks then needs time to reconnect.
  dispatched: 120,
  // Each progress message restarts it.
  downloading: 600,
  staged: 600,
  installing: INSTALLING_SECONDS,
  rolling_back: 900,
};
/** In addition to the robot's verification time: the robot decides, this only bounds the wait. */
const VERIFYING_SLACK_SECONDS = 300;
/** Time for a rollback of a robot, without its verification time. */
export const RETURN_SECONDS = INSTALLING_SECONDS + VERIFYING_SLACK_SECONDS;
/** Within this time a connected robot downloads the previous release if needed, installs it and verifies it. */
export const returnDeadline = (verify_seconds: number, now: Date): Date =>
  new Date(now.getTime() + (RETURN_SECONDS + verify_seconds) * 1_000);
/** How long a robot may take to acknowledge that it stopped. */
export const CANCEL_ACK_SECONDS = 60;
const RETRY_BASE_SECONDS = 10;

export function deadlineOf(status: TargetStatus, verify_seconds: number, now: Date): Date | null {
  const seconds = status === "verifying" ? verify_seconds + VERIFYING_SLACK_SECONDS : STEP_TIMEOUT_SECONDS[status];
  return seconds === undefined ? null : new Date(now.getTime() + seconds * 1_000);
}

/** Returns when a target may be retried after its attempt failed: after 10 s, 20 s, 40 s … */
export const retryAt = (attempt: number, now: Date): Date => new Date(now.getTime() + RETRY_BASE_SECONDS * 1_000 * 2 ** (attempt - 1));

/** How long a robot verifies a new version under this policy. */
export const verifySecondsOf = (rollout: Rollout): number => wholeRollout(rollout).verify_seconds;
