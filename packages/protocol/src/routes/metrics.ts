import { Type } from "typebox";
import { METRIC_AGGREGATIONS } from "../states.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";
import { Count, DataOf, defineRoutes, Entity, Id, type Of, Time } from "./route.ts";
import { LabelFilter, METRIC_POINTS_MAX } from "./robots.ts";

/** Maximum robots whose metric one query reads. */
export const METRIC_ROBOTS_MAX = 5_000;
/** Maximum series of an answer. */
export const METRIC_GROUPS_MAX = 50;
const GROUP_PATTERN = "^(robot|site|fleet|label:[A-Za-z0-9][A-Za-z0-9._/-]{0,62})$";

const MetricGroup = Entity("MetricGroup", {
  id: Nullable(
    Type.String({ description: "The robot, site or fleet, or the value of the label; null: all robots, or those without the label" }),
  ),
  name: Type.String({ description: "The name of the robot, site or fleet, or the value of the label" }),
  labels: Type.Record(Type.String(), Type.String(), {
    description: "Labels of the series, such as the mount of a disk, if grouped by robot",
  }),
  robot_count: Count,
  values: Type.Array(Nullable(Type.Number()), { description: "A value for each interval; null: no samples" }),
});

export const MetricAnswer = Entity("MetricAnswer", {
  name: Type.String(),
  aggregation: OneOf(METRIC_AGGREGATIONS),
  since: Time,
  until: Time,
  counter: Type.Boolean({
    description: "Whether the metric is a counter. Its values are increases per second, unless the aggregation is `count`",
  }),
  step_seconds: Type.Number({ description: "Length of an interval, at least that of the stored data. The first begins at `since`" }),
  groups: Type.Array(MetricGroup, { description: "With the highest averages first" }),
  omitted_groups: Type.Integer({ minimum: 0, description: "Groups that are not in the answer" }),
});
export type MetricAnswer = Of<typeof MetricAnswer>;

export const metricRoutes = defineRoutes("Metrics", {
  listMetrics: {
    summary: "List the names of metrics that robots sent in the last two days",
    responses: { 200: DataOf(Shape({ names: Type.Array(Type.String()), truncated: Type.Boolean() })) },
  },
  queryMetrics: {
    summary: "Get one metric of many robots over time, by group. Counters are shown as increase per second",
    query: Shape({
      name: Type.String({ minLength: 1, maxLength: 128 }),
      site_id: Maybe(Id),
      fleet_id: Maybe(Id),
      robot_id: Maybe(Type.Union([Id, Type.Array(Id, { minItems: 1, maxItems: 20 })], { description: "May be repeated" })),
      label: Maybe(LabelFilter),
      group_by: Maybe(
        Type.String({ pattern: GROUP_PATTERN, description: "robot, site, fleet or label:KEY. Default: one series of all robots" }),
      ),
      aggregation: Maybe(OneOf(METRIC_AGGREGATIONS, "How the robots of a group are combined. Default: avg")),
      since: Maybe({ ...Time, description: "Default: an hour before `until`" }),
      until: Maybe({ ...Time, description: "Default: now" }),
      points: Maybe(Type.Integer({ minimum: 1, maximum: METRIC_POINTS_MAX, description: "Number of intervals; default: 120" })),
    }),
    responses: { 200: DataOf(MetricAnswer) },
    errors: [404],
  },
});
