/** A series of a metric as `GET /api/robots/{id}/metrics` returns it. */
interface IntervalSeries {
  name: string;
  mean: readonly (number | null)[];
  max: readonly (number | null)[];
}

/** Whether a metric counts since the robot's start or boot, so that its rate is of interest. */
export const isCounter = (name: string): boolean => name.endsWith("_total") || /^network_(receive|transmit)_bytes$/.test(name);

/**
 * Returns the values of a series to show: the averages of the intervals. Of a counter it returns the increase for each second instead; null
 * for the first interval, after the counter was reset, and for the last interval, which is not complete.
 */
export function shownValues({ name, mean, max }: IntervalSeries, step_seconds: number): (number | null)[] {
  if (!isCounter(name)) return [...mean];
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
  const base = name.replace(/_total$/, "");
  if (base.endsWith("_bytes")) return "bytes";
  if (base.endsWith("_percent")) return "percent";
  if (base.endsWith("_celsius")) return "celsius";
  return base.endsWith("_seconds") ? "seconds" : "none";
}
