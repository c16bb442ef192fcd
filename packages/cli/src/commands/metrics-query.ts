import { METRIC_AGGREGATIONS, type MetricAggregation } from "@roamfleet/protocol/states";
import { lastOf } from "@roamfleet/protocol/metric-values";
import type { Body } from "@roamfleet/sdk";
import { InvalidArgumentError, Option } from "commander";
import { collect, defineCommand, requestCommand, wholeNumber } from "../command.ts";
import { duration, readTime, type TimeOption } from "../duration.ts";
import { labelQuery } from "../labels.ts";
import { line } from "../text.ts";
import { curve, highest, lowest, valueText } from "./metrics.ts";

type Group = Body<"queryMetrics">["data"]["groups"][number];

/** Number of intervals, which is the width of the curves in characters. */
const POINTS = 40;

interface Options {
  by?: string;
  aggregation: MetricAggregation;
  site?: string;
  fleet?: string;
  robot?: string[];
  label?: string[];
  since?: TimeOption;
  until?: TimeOption;
  points: number;
}

function readGroup(text: string): string {
  if (!/^(robot|site|fleet|label:.+)$/.test(text)) throw new InvalidArgumentError("Expected robot, site, fleet or label:KEY.");
  return text;
}

export const query = defineCommand<[string, Options]>(
  "Show one metric of many robots over time: for each group the number of robots, the latest, lowest and highest value, and the curve. Groups with the highest averages are first. Counters are shown as increase per second.",
  (command) =>
    command
      .argument("<name>", "Name of the metric, such as cpu_percent")
      .option("--by <group>", "Group the robots by robot, site, fleet or label:KEY (default: one group)", readGroup)
      .addOption(
        new Option("--aggregation <how>", "How the robots of a group are combined; count counts robots with samples")
          .choices(METRIC_AGGREGATIONS)
          .default("avg"),
      )
      .option("--site <id>", "Only robots at this site")
      .option("--fleet <id>", "Only robots of this fleet")
      .option("--robot <id>", "Only this robot (repeatable)", collect)
      .option("--label <key=value>", "Only robots with this label (repeatable; all must match)", collect)
      .option("--since <time>", "Start of the period: an age such as 10m, 2h or 3d, or an RFC 3339 time (default: an hour ago)", readTime)
      .option("--until <time>", "End of the period, in the same form (default: now)", readTime)
      .option("--points <n>", "Number of intervals", wholeNumber(1), POINTS),
  async (context, name, { by, aggregation, site, fleet, robot, label, since, until, points }) => {
    const { out } = context;
    const answer = await (
      await context.client()
    ).queryMetrics({
      query: {
        name,
        group_by: by,
        aggregation,
        site_id: site,
        fleet_id: fleet,
        robot_id: robot,
        label: label?.map(labelQuery),
        since: since?.(context.now()),
        until: until?.(context.now()),
        points,
      },
    });
    const { groups, omitted_groups, step_seconds, counter, ...period } = answer.data;
    const seconds = (Date.parse(period.until) - Date.parse(period.since)) / 1_000;
    const shownText = (value: number | undefined): string =>
      aggregation === "count" ? valueText("", value, false) : valueText(name, value, counter);
    await out.result(answer, async () => {
      if (groups.length === 0) return out.note("No samples in this period. `rf metrics names` lists the names of metrics.");
      await out.table(groups, [
        { title: (by ?? "robots").replace("label:", "").toUpperCase(), value: nameOf },
        { title: "COUNT", value: ({ robot_count }) => robot_count },
        { title: "LATEST", value: ({ values }) => shownText(lastOf(values)) },
        { title: "LOWEST", value: ({ values }) => shownText(lowest(values)) },
        { title: "HIGHEST", value: ({ values }) => shownText(highest(values)) },
        { title: `${duration(seconds)} IN STEPS OF ${duration(step_seconds)}`, value: ({ values }) => curve(values) },
      ]);
      if (omitted_groups > 0) out.note(line`${omitted_groups} further groups are not shown. Choose a site, a fleet or a label.`);
    });
  },
  [
    "rf metrics query cpu_percent --by site --since 30d",
    "rf metrics query battery_percent --aggregation min --fleet fleet_… --by label:model",
  ],
);

/** Formats `arm-1 /data`: a robot may have several series. */
const nameOf = ({ name, labels }: Group): string => [name, ...Object.values(labels)].join(" ");

export const names = requestCommand(
  "List the names of metrics that robots sent in the last two days.",
  () => {},
  (client) => client.listMetrics(),
  ({ data }, { out }) => {
    if (data.names.length === 0) return out.note("No metrics yet. Robots send samples every 15 minutes by default.");
    for (const name of data.names) out.line(line`${name}`);
    if (data.truncated) out.note("Further names are not shown.");
  },
  ["rf metrics names"],
);
