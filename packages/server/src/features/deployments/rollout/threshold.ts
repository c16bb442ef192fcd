import type { WholeRollout } from "@robofleet/protocol/routes";

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

/**
 * Whether the rollout is to go no further. Without waves and threshold nothing is stopped early. Failures that somebody
 * has seen, and went on after, count only together with a further one. Pure.
 */
export function isExceeded(
  tally: Tally,
  { waves, failure_threshold }: Pick<WholeRollout, "waves" | "failure_threshold">,
  failures_accepted: number,
): boolean {
  if (waves === null && failure_threshold === null) return false;
  const failures = failuresOf(tally);
  if (failures <= failures_accepted || tally.applied + failures < (failure_threshold?.min_decided ?? 1)) return false;
  return isTooMany(tally, failure_threshold);
}
