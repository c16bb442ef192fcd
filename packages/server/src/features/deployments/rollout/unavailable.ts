import type { WholeRollout } from "@roamfleet/protocol/routes";

/** Robots of a deployment that stand for each other, and how many of them cannot be counted on now. */
export interface Group {
  size: number;
  away: number;
}

type MaxUnavailable = NonNullable<WholeRollout["max_unavailable"]>;

/** How many of the group may be away: a part of it rounded down, at least one. Pure. */
export const allowedAway = ({ size }: Group, { count, percent }: MaxUnavailable): number =>
  count ?? Math.max(1, Math.floor((size * (percent ?? 0)) / 100));

/** How many more of the group may go; less than 0: more are away than are allowed. Pure. */
export const roomOf = (group: Group, limit: MaxUnavailable): number => allowedAway(group, limit) - group.away;
