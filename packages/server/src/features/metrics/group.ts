import type { MetricAggregation } from "@roamfleet/protocol";
import { isCounter, shownValues } from "@roamfleet/protocol/metric-values";
import type { RobotSeries } from "./read.ts";

/** A robot with the places and labels by which its series are grouped. */
export interface GroupedRobot {
  id: string;
  name: string;
  site_id: string;
  site_name: string;
  fleet_id: string;
  fleet_name: string;
  labels: Record<string, string>;
}

export interface Group {
  id: string | null;
  name: string;
  labels: Record<string, string>;
  robot_count: number;
  values: (number | null)[];
}

const COMBINE: Record<MetricAggregation, (values: readonly number[]) => number> = {
  avg: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
  min: (values) => values.reduce((least, value) => Math.min(least, value), Infinity),
  max: (values) => values.reduce((most, value) => Math.max(most, value), -Infinity),
  sum: (values) => values.reduce((sum, value) => sum + value, 0),
  count: (values) => values.length,
};

/** Returns the values of a series that an aggregation combines: of a counter its increase per second. */
function valuesOf(series: RobotSeries, aggregation: MetricAggregation, step_seconds: number): (number | null)[] {
  if (isCounter(series.name)) return shownValues(series, step_seconds);
  return aggregation === "min" ? series.min : aggregation === "max" ? series.max : series.mean;
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
  { group_by, aggregation, step_seconds }: { group_by: string | undefined; aggregation: MetricAggregation; step_seconds: number },
): Group[] {
  const found = new Map<string, { group: Pick<Group, "id" | "name" | "labels">; members: RobotSeries[] }>();
  for (const one of series) {
    const robot = robots.get(one.robot_id);
    if (robot === undefined) continue;
    const group = groupOf(robot, one.labels, group_by);
    const key = JSON.stringify([group.id, group.labels]);
    const known = found.get(key);
    if (known === undefined) found.set(key, { group, members: [one] });
    else known.members.push(one);
  }
  const groups = [...found.values()].map(({ group, members }): Group => {
    const shown = members.map((one) => valuesOf(one, aggregation, step_seconds));
    const points = shown[0]?.length ?? 0;
    const values = Array.from({ length: points }, (_, at) => {
      const filled = shown.flatMap((one, i) => {
        const value = one[at] ?? null;
        return value === null ? [] : [{ value, robot_id: members[i]?.robot_id }];
      });
      if (filled.length === 0) return null;
      if (aggregation === "count") return new Set(filled.map(({ robot_id }) => robot_id)).size;
      return COMBINE[aggregation](filled.map(({ value }) => value));
    });
    return { ...group, robot_count: new Set(members.map(({ robot_id }) => robot_id)).size, values };
  });
  const averageOf = ({ values }: Group): number => {
    const filled = values.filter((value) => value !== null);
    return filled.length === 0 ? -Infinity : COMBINE.avg(filled);
  };
  return groups
    .map((group) => ({ group, average: averageOf(group) }))
    .toSorted((a, b) => b.average - a.average || (a.group.name < b.group.name ? -1 : 1))
    .map(({ group }) => group);
}
