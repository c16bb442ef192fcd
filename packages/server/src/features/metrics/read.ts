import type { MetricAggregation } from "@roamfleet/protocol";
import type { Series } from "@roamfleet/protocol/link";
import { distributionOf, isCounter } from "@roamfleet/protocol/metric-values";
import type { Db } from "../../kernel/db.ts";
import { badRequest } from "../../kernel/fault.ts";
import { labelsKey, seriesOf } from "../../kernel/stored-series.ts";
import { yieldToEventLoop } from "../../kernel/yield.ts";
import { Intervals, type IntervalValues } from "./intervals.ts";
import { addRollup, DAY_MS, type Step } from "./rollup.ts";
import { CHUNKS_MAX, chunksBetween } from "./store.ts";
import { hoursOfMetric, isDistribution, rollupsOfMetric, rollupsOfRobot, type RollupRow } from "./store-rollups.ts";

/** Maximum series that one query reads. */
const SERIES_READ_MAX = 20_000;
/** Other work runs after this number of decoded samples or intervals. They take about 3 ms. */
const TURN_SAMPLES = 5_000;
/** Up to this number of hours, summed over the robots, samples are read, which takes about 1 ms for each hour. */
const RAW_HOURS_MAX = 1_000;
/** Up to this number of days, summed over the robots, intervals of 5 minutes are read. Beyond it, intervals of an hour. */
const FINE_DAYS_MAX = 2_000;
const HOUR_MS = 3_600_000;

/** What to read: from `since` to before `until`, divided into `points` equal intervals. */
export interface MetricPeriod {
  since: Date;
  until: Date;
  points: number;
}

/** A series of a robot, reduced to the intervals of a query. */
export interface RobotSeries {
  robot_id: string;
  name: string;
  labels: Record<string, string>;
  intervals: Intervals;
}

export interface FoundSeries {
  /** Sorted by name and labels. */
  series: RobotSeries[];
  /** The number of intervals, which is lower than requested if the stored intervals are longer. */
  points: number;
}

/** `raw`: the samples themselves. */
type Resolution = "raw" | Step;

export interface Wanted extends MetricPeriod {
  robots: readonly string[];
  /** Names of the metrics; undefined: all of one robot. Of several robots only one metric is read. */
  names: ReadonlySet<string> | undefined;
  /** Whether the lowest and highest values are needed. Default: true. */
  extremes?: boolean;
  /** Since when samples are stored. Older periods exist as rollups only. */
  raw_since: Date;
}

/** Returns from what a query is answered. Pure. */
export function resolutionOf({ robots, since, until, raw_since }: Pick<Wanted, "robots" | "since" | "until" | "raw_since">): Resolution {
  const span_ms = until.getTime() - since.getTime();
  if (since >= raw_since && (robots.length * span_ms) / HOUR_MS <= RAW_HOURS_MAX) return "raw";
  return (robots.length * span_ms) / DAY_MS <= FINE_DAYS_MAX ? 300 : 3_600;
}

/** Returns the series of robots, reduced to intervals. Values that are not finite are left out. */
export async function readSeries(db: Db, org_id: string, wanted: Wanted): Promise<FoundSeries> {
  const resolution = resolutionOf(wanted);
  if (resolution === "raw") {
    const chunks = await chunksBetween(db, org_id, wanted);
    if (chunks.length < CHUNKS_MAX) {
      const set = new SeriesSet(wanted);
      for (const { robot_id, chunk } of chunks) {
        for (const series of seriesOf(chunk)) set.find(robot_id, series, series.times.length)?.add(series);
        await set.yieldOften();
      }
      return { series: set.series(), points: wanted.points };
    }
  }
  const step_seconds = resolution === "raw" ? 300 : resolution;
  // Otherwise, some intervals would be empty.
  const points = Math.max(
    1,
    Math.min(wanted.points, Math.floor((wanted.until.getTime() - wanted.since.getTime()) / (step_seconds * 1_000))),
  );
  const set = new SeriesSet({ ...wanted, points });
  for (const rollup of await rollupsOf(db, org_id, { ...wanted, step_seconds })) {
    const into = set.find(rollup.robot_id, rollup, DAY_MS / (step_seconds * 1_000));
    if (into !== undefined) addRollup(rollup, rollup.day.getTime(), into);
    await set.yieldOften();
  }
  return { series: set.series(), points };
}

function rollupsOf(
  db: Db,
  org_id: string,
  { robots, names, extremes = true, ...period }: Wanted & { step_seconds: Step },
): Promise<Iterable<RollupRow>> {
  const [robot_id = ""] = robots;
  const [name = ""] = names ?? [];
  if (robots.length === 1) return rollupsOfRobot(db, org_id, robot_id, { ...period, names });
  const wanted = { name, robots, ...period };
  return period.step_seconds === 3_600 ? hoursOfMetric(db, org_id, { ...wanted, extremes }) : rollupsOfMetric(db, org_id, wanted);
}

/** The series of an answer while it is read. */
class SeriesSet {
  readonly #wanted: Wanted;
  /** By name and labels, then by robot, because a joined key for each of many rollups takes longer. */
  readonly #found = new Map<string, Map<string, RobotSeries>>();
  /** The result of `labelsKey` by object of labels. Many rollups share one object. */
  readonly #keys = new WeakMap<Record<string, string>, string>();
  #size = 0;
  #work = 0;

  constructor(wanted: Wanted) {
    this.#wanted = wanted;
  }

  /** Returns the intervals of a series; undefined if it is not wanted. `work` is the number of its samples or intervals. */
  find(robot_id: string, { name, labels }: Pick<Series, "name" | "labels">, work: number): Intervals | undefined {
    this.#work += work;
    const { names, since, until, points } = this.#wanted;
    if (names !== undefined && !names.has(name)) return undefined;
    const key = `${name} ${this.#keyOf(labels)}`;
    const of_robots = this.#found.get(key) ?? new Map<string, RobotSeries>();
    let found = of_robots.get(robot_id);
    if (found === undefined) {
      if (this.#size >= SERIES_READ_MAX)
        throw badRequest(`more than ${SERIES_READ_MAX} series match: choose fewer robots, or another metric`);
      found = { robot_id, name, labels, intervals: new Intervals(since.getTime(), until.getTime(), points) };
      this.#found.set(key, of_robots.set(robot_id, found));
      this.#size += 1;
    }
    return found.intervals;
  }

  #keyOf(labels: Record<string, string>): string {
    const known = this.#keys.get(labels);
    if (known !== undefined) return known;
    const key = labelsKey({ labels });
    this.#keys.set(labels, key);
    return key;
  }

  /** Lets other work run if much was read since the last time. */
  async yieldOften(): Promise<void> {
    if (this.#work < TURN_SAMPLES) return;
    this.#work = 0;
    await yieldToEventLoop();
  }

  series(): RobotSeries[] {
    return [...this.#found]
      .flatMap(([key, of_robots]) => Array.from(of_robots.values(), (series) => ({ key: `${key} ${series.robot_id}`, series })))
      .filter(({ series }) => series.intervals.has_values)
      .toSorted((a, b) => (a.key < b.key ? -1 : 1))
      .map(({ series }) => series);
  }
}

/**
 * Returns one metric of robots, and whether it is a counter: by its name, or as a part of a histogram or summary of which one of the robots
 * sent buckets or quantiles in the period. Clients decide the same for one robot with `countersAmong`.
 */
export async function readMetric(
  db: Db,
  org_id: string,
  { name, aggregation, ...wanted }: Omit<Wanted, "names" | "extremes"> & { name: string; aggregation: MetricAggregation },
): Promise<FoundSeries & { counter: boolean }> {
  const distribution = distributionOf(name);
  const extremes = aggregation === "min" || aggregation === "max" || isCounter(name) || distribution !== undefined;
  const found = await readSeries(db, org_id, { ...wanted, names: new Set([name]), extremes });
  if (isCounter(name) || distribution === undefined || found.series.length === 0) return { ...found, counter: isCounter(name) };
  const robots = [...new Set(found.series.map(({ robot_id }) => robot_id))];
  return { ...found, counter: await isDistribution(db, org_id, distribution, { ...wanted, robots }) };
}

/** Maximum series of one robot's answer. */
export const SERIES_SHOWN_MAX = 100;

export interface MetricsQuery extends MetricPeriod {
  robot_id: string;
  names: ReadonlySet<string> | undefined;
  raw_since: Date;
}

/** A series with one value for each interval. */
export type IntervalSeries = Pick<RobotSeries, "name" | "labels"> & IntervalValues;

export interface FoundMetrics {
  /** Sorted by name and labels. */
  series: IntervalSeries[];
  /** Number of matching series that are not in the result. */
  omitted_series: number;
  points: number;
}

/** Returns the metrics of a robot. Of more than SERIES_SHOWN_MAX series, returns the first by name. */
export async function queryMetrics(db: Db, org_id: string, { robot_id, ...query }: MetricsQuery): Promise<FoundMetrics> {
  const { series, points } = await readSeries(db, org_id, { ...query, robots: [robot_id] });
  return {
    series: series.slice(0, SERIES_SHOWN_MAX).map(({ name, labels, intervals }) => ({ name, labels, ...intervals.values() })),
    omitted_series: Math.max(0, series.length - SERIES_SHOWN_MAX),
    points,
  };
}
