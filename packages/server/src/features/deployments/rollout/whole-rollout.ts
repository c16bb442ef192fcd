import type { Rollout, WholeRollout } from "@roamfleet/protocol/routes";

export const MAX_ATTEMPTS_DEFAULT = 3;
const VERIFY_SECONDS_DEFAULT = 30;

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
