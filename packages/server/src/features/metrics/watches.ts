import { hash } from "node:crypto";
import type { Series } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { isSeriesOf, labelsKey, seriesOf } from "../../kernel/stored-series.ts";
import { listRecentChunks, type NewValue, putValues, type Watch } from "./store-watches.ts";

/** A metric that an alert rule uses. */
export interface WatchedMetric {
  metric: string;
  labels: Readonly<Record<string, string>>;
  /** The period until the newest sample over which values are computed. */
  minutes: number;
}

const MINUTE_MS = 60_000;
/** Robots whose chunks are in memory at the same time. */
const ROBOTS_AT_ONCE = 8;
const KEY_CHARACTERS = 32;

/** Returns the key under which the values of a metric are stored. */
export const watchKey = ({ metric, labels, minutes }: WatchedMetric): string =>
  hash("sha256", JSON.stringify([metric, Object.entries(labels).toSorted(), minutes])).slice(0, KEY_CHARACTERS);

/** A chunk that was stored in this transaction. */
export interface StoredSamples {
  robot_id: string;
  series: readonly Series[];
}

/** Computes the watched values of robots whose chunks were stored, and writes them. */
export async function updateValues(tx: Db, org_id: string, watches: readonly Watch[], stored: readonly StoredSamples[]): Promise<void> {
  const names = new Set(watches.map(({ metric }) => metric));
  const longest_ms = Math.max(...watches.map(({ minutes }) => minutes)) * MINUTE_MS;
  const watched = stored
    .map(({ robot_id, series }) => ({ robot_id, series: series.filter(({ name }) => names.has(name)) }))
    .filter(({ series }) => series.length > 0);
  const values: NewValue[] = [];
  for (let i = 0; i < watched.length; i += ROBOTS_AT_ONCE) {
    const group = watched.slice(i, i + ROBOTS_AT_ONCE);
    const short = group.flatMap(({ robot_id, series }) => {
      const times = series.flatMap((one) => one.times);
      const last = times.reduce((a, b) => Math.max(a, b));
      const first = times.reduce((a, b) => Math.min(a, b));
      return first <= last - longest_ms ? [] : [{ robot_id, since: new Date(last - longest_ms), until: new Date(last) }];
    });
    const earlier = short.length === 0 ? [] : await listRecentChunks(tx, org_id, short);
    for (const { robot_id, series } of group) {
      // The chunk that was just stored is among those that are read.
      const chunks = earlier.filter((one) => one.robot_id === robot_id);
      const all = chunks.length === 0 ? series : chunks.flatMap(({ chunk }) => seriesOf(chunk));
      values.push(...watches.flatMap((watch) => valueOf(watch, robot_id, all) ?? []));
    }
  }
  if (values.length > 0) await putValues(tx, org_id, values);
}

interface Sample {
  time: number;
  value: number;
}

/** Computes the values of a watch from series of a robot. Undefined without samples. Pure. */
export function valueOf(
  { key, metric, labels, minutes }: Watch,
  robot_id: string,
  series: readonly Pick<Series, "name" | "labels" | "times" | "values">[],
): NewValue | undefined {
  const found = new Map<string, Sample[]>();
  for (const one of series) {
    if (!isSeriesOf(one, metric, labels)) continue;
    const id = labelsKey(one);
    const samples = one.times
      .map((time, i) => ({ time, value: one.values[i] ?? Number.NaN }))
      .filter(({ value }) => Number.isFinite(value));
    found.set(id, [...(found.get(id) ?? []), ...samples]);
  }
  const last = [...found.values()].flat().reduce((latest, { time }) => Math.max(latest, time), -Infinity);
  const recent = Array.from(found.values(), (samples) =>
    samples.filter(({ time }) => time > last - minutes * MINUTE_MS).toSorted((a, b) => a.time - b.time),
  ).filter(({ length }) => length > 0);
  if (recent.length === 0) return undefined;
  const means = recent.map((samples) => samples.reduce((sum, { value }) => sum + value, 0) / samples.length);
  const rates = recent.flatMap((samples) => rateOf(samples) ?? []);
  return {
    key,
    robot_id,
    at: new Date(last),
    mean_max: Math.max(...means),
    mean_min: Math.min(...means),
    rate_max: rates.length === 0 ? null : Math.max(...rates),
  };
}

/** Returns the rise of a counter per second. A lower value than before is a counter that began again at 0. Undefined with one sample. */
function rateOf(samples: readonly Sample[]): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || last.time === first.time) return undefined;
  let risen = 0;
  for (const [i, { value }] of samples.entries()) {
    const before = samples[i - 1]?.value;
    if (before !== undefined) risen += value >= before ? value - before : value;
  }
  return risen / ((last.time - first.time) / 1_000);
}
