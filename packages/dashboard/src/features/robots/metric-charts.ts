import type { RobotMetrics } from "@roamfleet/protocol/routes";
import { countersAmong, type MetricUnit, shownValues, unitOf } from "@roamfleet/protocol/metric-values";
import type { MetricRange } from "../../search.ts";
import { hasValues, type Series } from "./health-series.ts";

/**
 * The ranges with the length of their intervals in seconds: multiples of the default sampling interval, so that each interval has as many
 * samples as the others. Otherwise the rate of a counter would jump up and down.
 */
export const METRIC_RANGES: Record<MetricRange, { seconds: number; step_seconds: number }> = {
  "1h": { seconds: 3_600, step_seconds: 30 },
  "24h": { seconds: 86_400, step_seconds: 300 },
  "7d": { seconds: 604_800, step_seconds: 1_800 },
};
/** A line is drawn over gaps of up to this many intervals. Longer ones are shown. */
export const GAP_SECONDS_MAX = 60;

export interface MetricChart {
  name: string;
  unit: string;
  /** Upper end of the value axis, which starts at 0; undefined: it fits the values. */
  max: number | undefined;
  series: Series[];
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"];
export const UNIT_TEXTS: Record<Exclude<MetricUnit, "bytes">, string> = { percent: "%", celsius: "°C", seconds: "s", none: "" };

/** Returns the query for the range that ends now, aligned to its intervals, so that repeated queries have the same key. */
export function metricPeriod(now_ms: number, range: MetricRange): { since: string; until: string; points: number } {
  const { seconds, step_seconds } = METRIC_RANGES[range];
  const step_ms = step_seconds * 1_000;
  const until = Math.ceil(now_ms / step_ms) * step_ms;
  return { since: new Date(until - seconds * 1_000).toISOString(), until: new Date(until).toISOString(), points: seconds / step_seconds };
}

/** Returns one chart for each metric, with a line for each of its series. `times` are the middles of the intervals, in seconds. */
export function chartsOf({ since, step_seconds, series }: RobotMetrics): { times: number[]; charts: MetricChart[] } {
  const from = Date.parse(since) / 1_000;
  const count = series[0]?.mean.length ?? 0;
  const isCounterHere = countersAmong(series);
  const charts = [...Map.groupBy(series, ({ name }) => name)].map(([name, of_name]): MetricChart => {
    const lines = of_name.map((one) => ({
      label: Object.values(one.labels).join(" ") || name,
      values: bridged(shownValues(one, step_seconds, isCounterHere(name)), GAP_SECONDS_MAX / step_seconds),
    }));
    return { name, ...scaled(name, lines, isCounterHere(name)) };
  });
  return {
    times: Array.from({ length: count }, (_, i) => from + (i + 0.5) * step_seconds),
    charts: charts.filter(({ series: lines }) => hasValues(lines)),
  };
}

/** Fills gaps of at most `most` intervals with the value before: with short intervals, not each has a sample. */
export function bridged(values: readonly (number | null)[], most: number): (number | null)[] {
  let [last, gap]: [number | null, number] = [null, 0];
  const filled = values.map((value) => {
    gap = value === null ? gap + 1 : 0;
    last = value ?? last;
    return gap > most ? null : last;
  });
  // The last value must not seem to be newer than it is.
  const end = values.findLastIndex((value) => value !== null);
  return filled.map((value, i) => (i > end ? null : value));
}

/** Converts bytes to the unit that fits the highest value. */
export function scaled(name: string, lines: readonly Series[], is_counter: boolean): Omit<MetricChart, "name"> {
  const unit = unitOf(name);
  const rate = is_counter ? "/s" : "";
  if (unit !== "bytes") return { unit: `${UNIT_TEXTS[unit]}${rate}`, max: unit === "percent" ? 100 : undefined, series: [...lines] };
  const highest = Math.max(1, ...lines.flatMap(({ values }) => values.filter((value) => value !== null)));
  const power = Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log10(highest) / 3));
  const divided = (value: number | null): number | null => (value === null ? null : value / 1_000 ** power);
  return {
    unit: `${BYTE_UNITS[power]}${rate}`,
    max: undefined,
    series: lines.map(({ label, values }) => ({ label, values: values.map(divided) })),
  };
}
