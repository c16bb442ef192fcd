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
  const earliest_kept = now - retention_days * DAY_MS;
  const newest = max(given.flatMap(({ times }) => times.filter((time) => time <= latest))) ?? latest;
  const earliest = Math.max(earliest_kept, newest - CHUNK_SPAN_MS_MAX);
  const series: Series[] = [];
  for (const one of given) {
    if (![one.name, ...Object.keys(one.labels)].every((name) => NAME.test(name))) {
      dropped.name += one.times.length;
      continue;
    }
    if (series.length >= series_max) {
      dropped.series += one.times.length;
      continue;
    }
    const isIn = (time: number): boolean => time >= earliest && time <= latest;
    const out = one.times.filter((time) => !isIn(time)).length;
    dropped.time += out;
    if (out === one.times.length) continue;
    if (out === 0) series.push(one);
    else series.push({ ...one, times: one.times.filter(isIn), values: one.values.filter((_, i) => isIn(one.times[i] ?? Infinity)) });
  }
  const times = series.flatMap((one) => one.times);
  return {
    series,
    dropped,
    dropped_count: dropped.series + dropped.name + dropped.time,
    sample_count: times.length,
    first_at: max(
      times.map((time) => -time),
      -1,
    ),
    last_at: max(times),
  };
}

/** Returns the maximum, times `sign`. A chunk has too many samples to pass them to Math.max as arguments. */
const max = (values: readonly number[], sign = 1): number | undefined =>
  values.length === 0 ? undefined : sign * values.reduce((most, value) => Math.max(most, value), -Infinity);
