import type { MetricAggregation } from "@roamfleet/protocol";
import { shownValues } from "@roamfleet/protocol/metric-values";
import { Intervals, rounded } from "./intervals.ts";
import type { RobotSeries } from "./read.ts";
import type { GroupedRobot } from "./store-rollups.ts";

export interface Group {
  id: string | null;
  name: string;
  labels: Record<string, string>;
  robot_count: number;
  values: (number | null)[];
}

/** How the values of a group at one time are combined, of which `counts` has the number. */
const COMBINE: Record<MetricAggregation, (combined: Intervals, at: number) => number> = {
  avg: (combined, at) => rounded(combined.mean(at)),
  min: ({ min }, at) => min[at] ?? 0,
  max: ({ max }, at) => max[at] ?? 0,
  sum: ({ sums }, at) => rounded(sums[at] ?? 0),
  count: ({ counts }, at) => counts[at] ?? 0,
};

interface Shown {
  aggregation: MetricAggregation;
  /** Whether the metric is a counter, so that its increase per second is of interest. */
  counter: boolean;
  step_seconds: number;
}

/** Returns the value of a series for each interval with samples: of a counter its increase per second. A count needs only the samples. */
function valuesOf({ intervals }: RobotSeries, { aggregation, counter, step_seconds }: Shown): (at: number) => number | null {
  if (counter && aggregation !== "count") {
    const rates = shownValues(intervals.values(), step_seconds, counter);
    return (at) => rates[at] ?? null;
  }
  const extremes = aggregation === "min" ? intervals.min : aggregation === "max" ? intervals.max : undefined;
  return (at) => (intervals.counts[at] === 0 ? null : extremes === undefined ? intervals.mean(at) : (extremes[at] ?? 0));
}

/** Returns the group of a robot: its id, its name, and what distinguishes several series of one robot. */
function groupOf(robot: GroupedRobot, labels: Record<string, string>, group_by: string | undefined): Pick<Group, "id" | "name" | "labels"> {
  if (group_by === "robot") return { id: robot.id, name: robot.name, labels };
  if (group_by === "site") return { id: robot.site_id, name: robot.site_name, labels: {} };
  if (group_by === "fleet") return { id: robot.fleet_id, name: robot.fleet_name, labels: {} };
  if (group_by === undefined) return { id: null, name: "all robots", labels: {} };
  const value = robot.labels[group_by.slice("label:".length)];
  return { id: value ?? null, name: value ?? "without the label", labels: {} };
}

/**
 * Combines the series of robots to one for each group, the groups with the highest averages first. `count` counts the robots with samples,
 * the other aggregations combine all series of the robots. Pure.
 */
export function groupSeries(
  series: readonly RobotSeries[],
  robots: ReadonlyMap<string, GroupedRobot>,
  { group_by, ...shown }: Shown & { group_by: string | undefined },
): Group[] {
  interface Combined {
    group: Pick<Group, "id" | "name" | "labels">;
    robots: Set<string>;
    values: Intervals;
    /** The last robot that was counted at each time: one with several series counts once. */
    counted: string[];
  }
  const { aggregation } = shown;
  const found = new Map<string, Combined>();
  for (const one of series.toSorted((a, b) => (a.robot_id < b.robot_id ? -1 : 1))) {
    const { robot_id, labels, intervals } = one;
    const robot = robots.get(robot_id);
    if (robot === undefined) continue;
    const points = intervals.counts.length;
    const group = groupOf(robot, labels, group_by);
    const key = JSON.stringify([group.id, group.labels]);
    const combined = found.get(key) ?? { group, robots: new Set(), values: new Intervals(0, points, points), counted: [] };
    found.set(key, combined);
    combined.robots.add(robot_id);
    const valueOf = valuesOf(one, shown);
    for (let at = 0; at < points; at += 1) {
      const value = valueOf(at);
      if (value === null || (aggregation === "count" && combined.counted[at] === robot_id)) continue;
      combined.counted[at] = robot_id;
      combined.values.addReduced(at, 1, value, value, value);
    }
  }
  const groups = Array.from(found.values(), (one): Group => ({
    ...one.group,
    robot_count: one.robots.size,
    values: one.values.filled((at) => COMBINE[aggregation](one.values, at)),
  }));
  const averageOf = ({ values }: Group): number => {
    const filled = values.filter((value) => value !== null);
    return filled.length === 0 ? -Infinity : filled.reduce((sum, value) => sum + value, 0) / filled.length;
  };
  return groups
    .map((group) => ({ group, average: averageOf(group) }))
    .toSorted((a, b) => b.average - a.average || (a.group.name < b.group.name ? -1 : 1))
    .map(({ group }) => group);
}
