import type { MetricAnswer } from "@roamfleet/protocol/routes";
import { lastOf } from "@roamfleet/protocol/metric-values";
import type { ExplorerRange, ExplorerSearch, LEGEND_ORDERS, Panel } from "../../search.ts";
import { bridged, GAP_SECONDS_MAX, scaled } from "../robots/metric-charts.ts";

/** Length and intervals of the ranges in seconds. See METRIC_RANGES for why the intervals are multiples of 10 s. */
const RANGES: Record<ExplorerRange, { seconds: number; step_seconds: number }> = {
  "1h": { seconds: 3_600, step_seconds: 30 },
  "6h": { seconds: 21_600, step_seconds: 120 },
  "24h": { seconds: 86_400, step_seconds: 300 },
  "7d": { seconds: 604_800, step_seconds: 1_800 },
  "30d": { seconds: 2_592_000, step_seconds: 7_200 },
};
const STEPS_SECONDS = [10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200];
const POINTS_MAX = 360;
/** The API refuses longer periods. */
const SPAN_MS_MAX = 92 * 86_400_000;

/** A period to query, in equal intervals. */
export interface Period {
  since: string;
  until: string;
  points: number;
  step_seconds: number;
}

/** Returns the period of the page, aligned to its intervals, so that repeated queries have the same key. */
export function periodOf({ range = "1h", from, to }: ExplorerSearch, now_ms: number): Period {
  if (from !== undefined && to !== undefined && from < to) return fixedPeriod(Date.parse(from), Date.parse(to));
  const { seconds, step_seconds } = RANGES[range];
  const until = Math.ceil(now_ms / (step_seconds * 1_000)) * step_seconds * 1_000;
  return period(until - seconds * 1_000, until, step_seconds);
}

function fixedPeriod(from: number, to: number): Period {
  const begin = Math.max(from, to - SPAN_MS_MAX);
  const step_seconds = STEPS_SECONDS.find((step) => (to - begin) / 1_000 / step <= POINTS_MAX) ?? STEPS_SECONDS.at(-1)!;
  const step_ms = step_seconds * 1_000;
  const until = Math.ceil(to / step_ms) * step_ms;
  return period(Math.max(Math.floor(begin / step_ms) * step_ms, until - SPAN_MS_MAX), until, step_seconds);
}

const period = (since_ms: number, until_ms: number, step_seconds: number): Period => ({
  since: new Date(since_ms).toISOString(),
  until: new Date(until_ms).toISOString(),
  points: (until_ms - since_ms) / 1_000 / step_seconds,
  step_seconds,
});

/** Whether the page shows a fixed period, which does not move with the time. */
export const isFixed = ({ from, to }: ExplorerSearch): boolean => from !== undefined && to !== undefined && from < to;

/** The parts of a panel that are its query. */
export const queryOf = (
  { site_id, fleet_id, robot_id, label, group_by, aggregation }: Panel,
  name: string,
  { since, until, points }: Period,
) => ({
  name,
  ...(site_id === undefined ? {} : { site_id }),
  ...(fleet_id === undefined ? {} : { fleet_id }),
  ...(robot_id === undefined ? {} : { robot_id }),
  ...(label === undefined ? {} : { label }),
  ...(group_by === undefined ? {} : { group_by }),
  ...(aggregation === undefined ? {} : { aggregation }),
  since,
  until,
  points,
});

/** The metric of a panel that has none: the processor's load, if robots send it. */
export const defaultName = (names: readonly string[]): string => (names.includes("cpu_percent") ? "cpu_percent" : (names[0] ?? ""));

export interface Figures {
  last: number;
  mean: number;
  min: number;
  max: number;
}

/** The line of a group. */
export interface Line {
  /** Identifies the group in URLs: ids and labels, not the position. */
  key: string;
  label: string;
  /** Position in the answer, which determines the color and the dash pattern. */
  index: number;
  /** The robot, if the query is grouped by robot. */
  robot_id: string | undefined;
  values: (number | null)[];
  figures: Figures;
}

export interface Chart {
  unit: string;
  /** Upper end of the value axis, which starts at 0; undefined: it fits the values. */
  max: number | undefined;
  /** Middles of the intervals, in seconds since 1970. */
  times: number[];
  lines: Line[];
  /** The answer's groups, also those without samples. */
  group_count: number;
}

/** Converts an answer to the lines of a chart. Groups without samples have no line. Pure. */
export function chartOf(
  { name, aggregation, counter, since, step_seconds, groups, omitted_groups }: MetricAnswer,
  { group_by, ...scope }: Panel,
): Chart {
  // Without groups, the server names the only one "all robots", even if the panel limits the robots.
  const only = group_by === undefined && !isOfAll(scope) ? "selected robots" : undefined;
  const series = groups.map(({ name: label, labels, values }) => ({
    label: [only ?? label, ...Object.values(labels)].join(" "),
    values,
  }));
  const shown = aggregation === "count" ? { unit: "robots", max: undefined, series } : scaled(name, series, counter);
  const lines = shown.series.flatMap(({ label, values }, index): Line[] => {
    const { id, labels } = groups[index]!;
    const figures = figuresOf(values);
    if (figures === undefined) return [];
    const key = [id ?? "-", ...Object.entries(labels).map(([one, value]) => `${one}=${value}`)].join(" ");
    return [
      {
        key,
        label,
        index,
        robot_id: group_by === "robot" && id?.startsWith("rob_") ? id : undefined,
        values: bridged(values, GAP_SECONDS_MAX / step_seconds),
        figures,
      },
    ];
  });
  const from = Date.parse(since) / 1_000;
  const count = groups[0]?.values.length ?? 0;
  return {
    unit: shown.unit,
    // The sum of percentages may exceed 100.
    max: aggregation === "sum" ? undefined : shown.max,
    times: Array.from({ length: count }, (_, i) => from + (i + 0.5) * step_seconds),
    lines,
    group_count: groups.length + omitted_groups,
  };
}

function figuresOf(values: readonly (number | null)[]): Figures | undefined {
  const known = values.filter((value) => value !== null);
  const last = lastOf(values);
  if (last === undefined) return undefined;
  return {
    last,
    mean: known.reduce((sum, value) => sum + value, 0) / known.length,
    min: Math.min(...known),
    max: Math.max(...known),
  };
}

/** Sorts lines by name, or by a figure with the highest first. */
export const sortLines = (lines: readonly Line[], sort: (typeof LEGEND_ORDERS)[number]): Line[] =>
  lines.toSorted((a, b) =>
    sort === "name" ? a.label.localeCompare(b.label, undefined, { numeric: true }) : b.figures[sort] - a.figures[sort] || a.index - b.index,
  );

const AGGREGATION_TEXTS = {
  avg: "average",
  min: "minimum",
  max: "maximum",
  sum: "sum",
  count: "number of robots",
} as const;
export const AGGREGATIONS = (Object.keys(AGGREGATION_TEXTS) as (keyof typeof AGGREGATION_TEXTS)[]).map((value) => ({
  value,
  label: { avg: "Average", min: "Minimum", max: "Maximum", sum: "Sum", count: "Count of robots" }[value],
}));

const isOfAll = ({ site_id, fleet_id, robot_id, label }: Panel): boolean =>
  [site_id, fleet_id, robot_id, label].every((part) => part === undefined);

/** Describes what a panel shows: "average by robot, per second". */
export function panelText({ aggregation = "avg", group_by, ...scope }: Panel, is_counter: boolean): string {
  const by =
    group_by === undefined ? `of ${isOfAll(scope) ? "all" : "the selected"} robots` : `by ${group_by.replace(/^label:/, "label ")}`;
  const rate = is_counter && aggregation !== "count" ? ", per second" : "";
  return `${AGGREGATION_TEXTS[aggregation]} ${by}${rate}`;
}

/** The lines differ by color and by pattern of dashes: CSS variables, and lengths in pixels. */
const LINE_TOKENS = ["--accent", "--info", "--warn", "--bad", "--ink", "--muted"] as const;
const DASHES: readonly (readonly number[])[] = [[], [6, 4], [2, 3], [10, 3, 2, 3], [14, 5]];

/** Returns the color and the dash pattern of a line. Each of the first 30 lines has another combination. */
export const styleOf = (index: number): { token: (typeof LINE_TOKENS)[number]; dash: readonly number[] } => ({
  token: LINE_TOKENS[index % LINE_TOKENS.length]!,
  // The pattern changes with each line, so that lines can be distinguished without their colors.
  dash: DASHES[(index + Math.floor(index / (LINE_TOKENS.length * DASHES.length))) % DASHES.length]!,
});
