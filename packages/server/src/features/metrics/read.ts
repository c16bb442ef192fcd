import { ChunkError, decodeChunk, type Series } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { chunksBetween, newestChunks } from "./store.ts";

export interface LatestSample {
  name: string;
  labels: Record<string, string>;
  at: Date;
  value: number;
}

/** Maximum robots of one call of `latestSamples`. */
const ROBOTS_MAX = 1_000;

/**
 * Returns the newest sample of each series in each robot's newest chunk that begins at `since` or later, by robot id. Omits robots without
 * one.
 *
 * @throws RangeError for more than 1,000 robots.
 */
export async function latestSamples(
  db: Db,
  org_id: string,
  { robot_ids, since }: { robot_ids: readonly string[]; since: Date },
): Promise<Map<string, LatestSample[]>> {
  if (robot_ids.length > ROBOTS_MAX) throw new RangeError(`at most ${ROBOTS_MAX} robots, not ${robot_ids.length}`);
  const rows = await newestChunks(db, org_id, robot_ids, since);
  return new Map(rows.map(({ robot_id, chunk }) => [robot_id, seriesOf(chunk).flatMap(latestOf)]));
}

function latestOf({ name, labels, times, values }: Series): LatestSample[] {
  let newest = 0;
  for (const [i, time] of times.entries()) if (time >= (times[newest] ?? 0)) newest = i;
  const [time, value] = [times[newest], values[newest]];
  return time === undefined || value === undefined ? [] : [{ name, labels, at: new Date(time), value }];
}

export interface SeriesQuery {
  robot_id: string;
  name: string;
  /** Only series with these labels; they may have others too. */
  labels?: Readonly<Record<string, string>>;
  /** From `since` to before `until`. */
  since: Date;
  until: Date;
}

/** Returns the samples of each matching series of a robot, sorted by time. Of several samples with the same time, the last stored counts. */
export async function querySeries(db: Db, org_id: string, { robot_id, name, labels = {}, since, until }: SeriesQuery): Promise<Series[]> {
  const found = new Map<string, { labels: Record<string, string>; samples: Map<number, number> }>();
  for (const { chunk } of await chunksBetween(db, org_id, robot_id, since, until)) {
    for (const series of seriesOf(chunk)) {
      if (series.name !== name || !Object.entries(labels).every(([label, value]) => series.labels[label] === value)) continue;
      const key = JSON.stringify(series.labels);
      const of = found.get(key) ?? { labels: series.labels, samples: new Map() };
      found.set(key, of);
      for (const [i, time] of series.times.entries()) {
        const value = series.values[i];
        if (value !== undefined && time >= since.getTime() && time < until.getTime()) of.samples.set(time, value);
      }
    }
  }
  return Array.from(found.values(), ({ labels: own, samples }) => {
    const sorted = [...samples].sort(([a], [b]) => a - b);
    return { name, labels: own, times: sorted.map(([time]) => time), values: sorted.map(([, value]) => value) };
  }).filter(({ times }) => times.length > 0);
}

/** Returns the series of a stored chunk; none if it is damaged, so that the others stay readable. */
function seriesOf(chunk: Buffer): Series[] {
  try {
    return decodeChunk(chunk);
  } catch (error) {
    if (error instanceof ChunkError) return [];
    throw error;
  }
}
