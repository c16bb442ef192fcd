interface SeriesName {
  name: string;
  labels: Readonly<Record<string, string>>;
}

/** Maximum names of one query of a robot's metrics. */
export const METRIC_NAMES_MAX = 50;

/** A series of a metric as `GET /api/robots/{id}/metrics` returns it. */
interface IntervalSeries {
  mean: readonly (number | null)[];
  max: readonly (number | null)[];
}

/**
 * Whether the name of a metric proves that it counts since the start of a program or machine, so that its rate is of interest. Parts of
 * histograms are counters, too, but their names alone do not prove it: see `countersAmong`.
 */
export const isCounter = (name: string): boolean => name.endsWith("_total") || /^network_(receive|transmit)_bytes$/.test(name);

/** Returns the name of the histogram or summary that a metric may be a part of; undefined if its name does not end like a part. */
export const distributionOf = (name: string): string | undefined => /^(.+)_(?:bucket|count|sum)$/.exec(name)?.[1];

/** Returns the names of series that can prove for `countersAmong` that these metrics are parts of histograms or summaries. */
export const provingNames = (names: readonly string[]): Set<string> =>
  new Set(names.flatMap((name) => distributionOf(name) ?? []).flatMap((distribution) => [distribution, `${distribution}_bucket`]));

/**
 * Returns a function that reports whether a metric is a counter, given all series of a robot. `x_bucket`, `x_count` and `x_sum` are counters
 * if there are buckets of `x`, which have the label `le`, or quantiles, which have the label `quantile`. A gauge may have such a name, too.
 */
export function countersAmong(series: readonly SeriesName[]): (name: string) => boolean {
  const distributions = new Set(
    series.flatMap(({ name, labels }) => {
      if (labels["quantile"] !== undefined) return [name];
      return labels["le"] !== undefined && name.endsWith("_bucket") ? [name.slice(0, -"_bucket".length)] : [];
    }),
  );
  return (name) => isCounter(name) || distributions.has(distributionOf(name) ?? "");
}

/**
 * Returns the values of a series to show: the averages of the intervals. Of a counter it returns the increase for each second instead; null
 * for the first interval, after the counter was reset, and for the last interval, which is not complete.
 */
export function shownValues({ mean, max }: IntervalSeries, step_seconds: number, is_counter: boolean): (number | null)[] {
  if (!is_counter) return [...mean];
  const end = max.findLastIndex((value) => value !== null);
  let before: { value: number; at: number } | undefined;
  return max.map((value, at) => {
    if (value === null || at === end) return null;
    const rate = before === undefined || value < before.value ? null : (value - before.value) / ((at - before.at) * step_seconds);
    before = { value, at };
    return rate;
  });
}

/** Returns the last value that is not null; undefined if all are null. */
export const lastOf = (values: readonly (number | null)[]): number | undefined => values.findLast((value) => value !== null) ?? undefined;

export type MetricUnit = "bytes" | "percent" | "celsius" | "seconds" | "none";

/** Returns the unit of a metric by the end of its name, as Prometheus recommends to name metrics. */
export function unitOf(name: string): MetricUnit {
  // The sum of a histogram has the unit of what is observed. Its buckets and its count are numbers of observations.
  const base = name.replace(/_(total|sum)$/, "");
  if (base.endsWith("_bytes")) return "bytes";
  if (base.endsWith("_percent")) return "percent";
  if (base.endsWith("_celsius")) return "celsius";
  return base.endsWith("_seconds") ? "seconds" : "none";
}
