import type { LogHistogram } from "@roamfleet/protocol/routes";

/** The records of one bucket. `error` includes fatal records. */
export interface Bar {
  since: string;
  until: string;
  error: number;
  warn: number;
  other: number;
  total: number;
}

/** Adds the counts of the parts of a histogram. Returns one bar for each bucket of the period, oldest first, empty ones included. */
export function barsOf(pages: readonly Pick<LogHistogram, "since" | "until" | "bucket_seconds" | "buckets">[]): Bar[] {
  const [first] = pages;
  if (first === undefined) return [];
  const step_ms = first.bucket_seconds * 1_000;
  const bars = new Map<number, Bar>();
  const end = Math.ceil(Date.parse(first.until) / step_ms);
  for (let bucket = Math.floor(Date.parse(first.since) / step_ms); bucket < end; bucket += 1) {
    const [since, until] = [bucket * step_ms, (bucket + 1) * step_ms].map((ms) => new Date(ms).toISOString());
    bars.set(bucket, { since: since ?? "", until: until ?? "", error: 0, warn: 0, other: 0, total: 0 });
  }
  for (const { at, counts } of pages.flatMap(({ buckets }) => buckets)) {
    const bar = bars.get(Math.floor(Date.parse(at) / step_ms));
    if (bar === undefined) continue;
    const { error, fatal, warn, info, debug, trace } = counts;
    bar.error += error + fatal;
    bar.warn += warn;
    bar.other += info + debug + trace;
    bar.total += error + fatal + warn + info + debug + trace;
  }
  return [...bars.values()];
}
