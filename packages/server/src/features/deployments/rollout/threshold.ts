import type { WholeRollout } from "@roamfleet/protocol/routes";

/** How the robots of a rollout have fared so far. */
export interface Tally {
  applied: number;
  failed: number;
  rolled_back: number;
  /** Robots that it was ever dispatched to, each once. */
  dispatched: number;
}

type Threshold = WholeRollout["failure_threshold"];

export const failuresOf = ({ failed, rolled_back }: Tally): number => failed + rolled_back;

/** Whether more robots failed than the threshold allows; without one, none may. Pure. */
export function isTooMany(tally: Tally, threshold: Threshold): boolean {
  const failures = failuresOf(tally);
  if (threshold?.count !== undefined) return failures > threshold.count;
  return 100 * failures > (threshold?.percent ?? 0) * tally.dispatched;
}

type Policy = Pick<WholeRollout, "waves" | "failure_threshold">;

/**
 * Whether the rollout must not continue. Without waves and threshold nothing is stopped early. `failures_accepted`: the
 * failures so far when it was resumed past its threshold, 0 otherwise; from then on the next failure is too many, whatever
 * the threshold allows of the robots that were dispatched since. Pure.
 */
export function isExceeded(tally: Tally, { waves, failure_threshold }: Policy, failures_accepted: number): boolean {
  if (waves === null && failure_threshold === null) return false;
  const failures = failuresOf(tally);
  if (failures <= failures_accepted) return false;
  if (failures_accepted > 0) return true;
  return tally.applied + failures >= (failure_threshold?.min_decided ?? 1) && isTooMany(tally, failure_threshold);
}

/** What `failures_accepted` is after a resume: all failures so far when they exceed the threshold, else as before. Pure. */
export const acceptedByResume = (tally: Tally, policy: Policy, failures_accepted: number): number =>
  isExceeded(tally, policy, failures_accepted) ? failuresOf(tally) : failures_accepted;
