import type { Series } from "@roamfleet/protocol/link";

/** Samples of one chunk are at most this far apart, so that a search by time reads only chunks that begin shortly before. */
export const CHUNK_SPAN_MS_MAX = 3_600_000;
/** Maximum by which a sample's time may be ahead of the server's clock. */
const AHEAD_MS_MAX = 300_000;
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const DAY_MS = 86_400_000;

export type DropReason = "series" | "name" | "time";

export interface Admitted {
  series: Series[];
  /** Samples that are not stored, by the bound that they exceed. */
  dropped: Record<DropReason, number>;
  dropped_count: number;
  sample_count: number;
  /** Milliseconds since 1970; undefined if there are no samples. */
  first_at: number | undefined;
  last_at: number | undefined;
}

export interface Bounds {
  series_max: number;
  retention_days: number;
  /** The server's time in milliseconds since 1970. */
  now: number;
}

/** Returns what may be stored of the series of a chunk, and counts the other samples. */
export function admit(given: readonly Series[], { series_max, retention_days, now }: Bounds): Admitted {
  const dropped = { series: 0, name: 0, time: 0 };
  const latest = now + AHEAD_MS_MAX;
  // The series of a chunk share few arrays of times.
  const timelines = [...new Set(given.map(({ times }) => times))];
  const newest =
    extreme(
      Math.max,
      timelines.map((times) =>
        extreme(
          Math.max,
          times.filter((time) => time <= latest),
        ),
      ),
    ) ?? latest;
  const earliest = Math.max(now - retention_days * DAY_MS, newest - CHUNK_SPAN_MS_MAX);
  const isIn = (time: number): boolean => time >= earliest && time <= latest;
  const admitted_times = new Map(timelines.map((times) => [times, times.filter(isIn)]));
  const series: Series[] = [];
  for (const one of given) {
    if (!NAME.test(one.name) || !Object.keys(one.labels).every((name) => NAME.test(name))) {
      dropped.name += one.times.length;
      continue;
    }
    if (series.length >= series_max) {
      dropped.series += one.times.length;
      continue;
    }
    const times = admitted_times.get(one.times) ?? [];
    const out = one.times.length - times.length;
    dropped.time += out;
    if (times.length === 0) continue;
    if (out === 0) series.push(one);
    else series.push({ ...one, times, values: one.values.filter((_, i) => isIn(one.times[i] ?? Infinity)) });
  }
  const stored_times = [...new Set(series.map(({ times }) => times))];
  return {
    series,
    dropped,
    dropped_count: dropped.series + dropped.name + dropped.time,
    sample_count: series.reduce((sum, { times }) => sum + times.length, 0),
    first_at: extreme(
      Math.min,
      stored_times.map((times) => extreme(Math.min, times)),
    ),
    last_at: extreme(
      Math.max,
      stored_times.map((times) => extreme(Math.max, times)),
    ),
  };
}

/**
 * Returns the lowest or highest defined value, by `pick`, which returns one of two values. Compares one value after the other, because a
 * chunk has more samples than Math.max accepts as arguments.
 */
const extreme = (pick: (a: number, b: number) => number, values: readonly (number | undefined)[]): number | undefined =>
  values.reduce((found, value) => (found === undefined || value === undefined ? (found ?? value) : pick(found, value)), undefined);
