import type { WholeRollout } from "@roamfleet/protocol/routes";

/** Robots of a deployment that can replace each other, and how many of them are unavailable. */
export interface Group {
  size: number;
  away: number;
}

type MaxUnavailable = NonNullable<WholeRollout["max_unavailable"]>;

/** How many robots of the group may be unavailable: a percentage is rounded down, to at least one. Pure. */
export const allowedAway = ({ size }: Group, { count, percent }: MaxUnavailable): number =>
  count ?? Math.max(1, Math.floor((size * (percent ?? 0)) / 100));

/** How many more robots of the group may be updated; below 0: more are unavailable than allowed. Pure. */
export const roomOf = (group: Group, limit: MaxUnavailable): number => allowedAway(group, limit) - group.away;
