import type { WholeRollout } from "@roamfleet/protocol/routes";

/** Results of a rollout so far. */
export interface Tally {
  applied: number;
  failed: number;
  rolled_back: number;
  /** Robots to which it was ever dispatched, each counted once. */
  dispatched: number;
}

type Threshold = WholeRollout["failure_threshold"];

export const failuresOf = ({ failed, rolled_back }: Tally): number => failed + rolled_back;

/** Whether more robots failed than the threshold allows; without a threshold none may fail. Pure. */
export function isTooMany(tally: Tally, threshold: Threshold): boolean {
  const failures = failuresOf(tally);
  if (threshold?.count !== undefined) return failures > threshold.count;
  return 100 * failures > (threshold?.percent ?? 0) * tally.dispatched;
}

type Policy = Pick<WholeRollout, "waves" | "failure_threshold">;

/**
 * Whether the rollout must not continue. Without waves and threshold it never stops early. `failures_accepted` is the number of failures
 * when it was resumed past its threshold, otherwise 0. After such a resume the next failure exceeds the threshold, however many robots were
 * dispatched since. Pure.
 */
export function isExceeded(tally: Tally, { waves, failure_threshold }: Policy, failures_accepted: number): boolean {
  if (waves === null && failure_threshold === null) return false;
  const failures = failuresOf(tally);
  if (failures <= failures_accepted) return false;
  if (failures_accepted > 0) return true;
  return tally.applied + failures >= (failure_threshold?.min_decided ?? 1) && isTooMany(tally, failure_threshold);
}

/** Returns `failures_accepted` after a resume: all failures so far if they exceed the threshold, else unchanged. Pure. */
export const acceptedByResume = (tally: Tally, policy: Policy, failures_accepted: number): number =>
  isExceeded(tally, policy, failures_accepted) ? failuresOf(tally) : failures_accepted;
