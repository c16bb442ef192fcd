import type { TargetStatus } from "@roamfleet/protocol";
import type { Rollout, WholeRollout } from "@roamfleet/protocol/routes";

const INSTALLING_SECONDS = 900;
/** Timeout of each step of a target; after it the target is retried or fails. */
const STEP_TIMEOUT_SECONDS: Partial<Record<TargetStatus, number>> = {
  // The robot is connected when its target is dispatched. If the connection breaks then, the robot needs time to reconnect.
  dispatched: 120,
  // Each progress message restarts this timeout.
  downloading: 600,
  staged: 600,
  installing: INSTALLING_SECONDS,
  rolling_back: 900,
};
/** Slack that is added to the robot's verification time. The robot decides the result; the timeout only limits how long to wait for it. */
const VERIFYING_SLACK_SECONDS = 300;
/** Timeout for a robot's rollback, without its verification time. */
export const ROLLBACK_SECONDS = INSTALLING_SECONDS + VERIFYING_SLACK_SECONDS;
/** Returns the deadline by which a connected robot must download the previous release if needed, install it and verify it. */
export const rollbackDeadline = (verify_seconds: number, now: Date): Date =>
  new Date(now.getTime() + (ROLLBACK_SECONDS + verify_seconds) * 1_000);
/** Seconds within which a robot must acknowledge a request to stop. */
export const CANCEL_ACK_SECONDS = 60;
const RETRY_BASE_SECONDS = 10;

export function deadlineOf(status: TargetStatus, verify_seconds: number, now: Date): Date | null {
  const seconds = status === "verifying" ? verify_seconds + VERIFYING_SLACK_SECONDS : STEP_TIMEOUT_SECONDS[status];
  return seconds === undefined ? null : new Date(now.getTime() + seconds * 1_000);
}

/** Returns the time of a target's next attempt after attempt number `attempt` failed at `now`: 10 s, 20 s, 40 s … later. */
export const retryAt = (attempt: number, now: Date): Date => new Date(now.getTime() + RETRY_BASE_SECONDS * 1_000 * 2 ** (attempt - 1));

/** How long a robot verifies a new version under this policy. */
export const verifySecondsOf = (rollout: Rollout): number => wholeRollout(rollout).verify_seconds;

export const MAX_ATTEMPTS_DEFAULT = 3;
export const VERIFY_SECONDS_DEFAULT = 30;

/** Completes a policy with the defaults. Policies are stored as they were sent, so that defaults can change. Pure. */
export function wholeRollout(rollout: Rollout): WholeRollout {
  const { waves, failure_threshold: threshold } = rollout;
  return {
    waves: waves?.map(({ soak_seconds = 0, gate = "auto", ...members }) => ({ ...members, soak_seconds, gate })) ?? null,
    max_parallel: rollout.max_parallel ?? null,
    max_unavailable: rollout.max_unavailable ?? null,
    failure_threshold: threshold === undefined ? null : { ...threshold, min_decided: threshold.min_decided ?? 1 },
    on_failure: rollout.on_failure ?? "stop",
    window: rollout.window ?? null,
    expires_at: rollout.expires_at ?? null,
    max_attempts: rollout.max_attempts ?? MAX_ATTEMPTS_DEFAULT,
    verify_seconds: rollout.verify_seconds ?? VERIFY_SECONDS_DEFAULT,
  };
}
