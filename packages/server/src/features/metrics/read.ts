import type { Series } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { seriesOf } from "../../kernel/stored-series.ts";
import { yieldToEventLoop } from "../../kernel/yield.ts";
import { chunksBetween } from "./store.ts";

/** Maximum series of one answer. */
export const SERIES_SHOWN_MAX = 100;
/** Other work runs after this number of decoded samples. They take about 3 ms. */
const TURN_SAMPLES = 5_000;
/** Significant digits of an average. Sums of many samples have rounding errors in the others. */
const DIGITS = 10;

export interface MetricsQuery {
  robot_id: string;
  /** Names of the metrics; undefined: all. */
  names: ReadonlySet<string> | undefined;
  /** From `since` to before `until`. */
  since: Date;
  until: Date;
  /** Number of equal intervals into which the period is divided. */
  points: number;
}

/** A series with one value for each interval; null if it has no samples. */
export interface IntervalSeries {
  name: string;
  labels: Record<string, string>;
  mean: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
}

export interface FoundMetrics {
  /** Sorted by name and labels. */
  series: IntervalSeries[];
  /** Number of matching series that are not in the result. */
  omitted_series: number;
}

/**
 * Returns the samples of a robot by series, reduced to intervals. Values that are not finite are left out. Of more than SERIES_SHOWN_MAX
 * series, returns the first by name.
 */
export async function queryMetrics(db: Db, org_id: string, { robot_id, names, since, until, points }: MetricsQuery): Promise<FoundMetrics> {
  const found = new Map<string, Intervals>();
  const [from, to] = [since.getTime(), until.getTime()];
  let decoded = 0;
  for (const { chunk } of await chunksBetween(db, org_id, robot_id, since, until)) {
    for (const series of seriesOf(chunk)) {
      decoded += series.times.length;
      if (names !== undefined && !names.has(series.name)) continue;
      const key = `${series.name} ${JSON.stringify(series.labels)}`;
      let intervals = found.get(key);
      if (intervals === undefined) found.set(key, (intervals = new Intervals(series, from, to, points)));
      intervals.add(series);
    }
    if (decoded < TURN_SAMPLES) continue;
    await yieldToEventLoop();
    decoded = 0;
  }
  const filled = [...found].filter(([, intervals]) => intervals.has_values).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    series: filled.slice(0, SERIES_SHOWN_MAX).map(([, intervals]) => intervals.result()),
    omitted_series: Math.max(0, filled.length - SERIES_SHOWN_MAX),
  };
}

/** The samples of one series, reduced to equal intervals. */
class Intervals {
  readonly #series: Pick<Series, "name" | "labels">;
  readonly #from: number;
  readonly #to: number;
  readonly #step: number;
  readonly #counts: Uint32Array;
  readonly #sums: Float64Array;
  readonly #min: Float64Array;
  readonly #max: Float64Array;
  has_values = false;

  constructor({ name, labels }: Series, from: number, to: number, points: number) {
    this.#series = { name, labels };
    [this.#from, this.#to, this.#step] = [from, to, (to - from) / points];
    this.#counts = new Uint32Array(points);
    this.#sums = new Float64Array(points);
    this.#min = new Float64Array(points).fill(Infinity);
    this.#max = new Float64Array(points).fill(-Infinity);
  }

  add({ times, values }: Series): void {
    for (const [i, time] of times.entries()) {
      const value = values[i];
      if (value === undefined || !Number.isFinite(value) || time < this.#from || time >= this.#to) continue;
      const at = Math.min(this.#counts.length - 1, Math.floor((time - this.#from) / this.#step));
      this.has_values = true;
      this.#counts[at] = (this.#counts[at] ?? 0) + 1;
      this.#sums[at] = (this.#sums[at] ?? 0) + value;
      this.#min[at] = Math.min(this.#min[at] ?? Infinity, value);
      this.#max[at] = Math.max(this.#max[at] ?? -Infinity, value);
    }
  }

  result(): IntervalSeries {
    const filled = (values: Float64Array): (number | null)[] =>
      Array.from(values, (value, i) => ((this.#counts[i] ?? 0) === 0 ? null : value));
    const mean = this.#sums.map((sum, i) => Number((sum / Math.max(1, this.#counts[i] ?? 0)).toPrecision(DIGITS)));
    return { ...this.#series, mean: filled(mean), min: filled(this.#min), max: filled(this.#max) };
  }
}
