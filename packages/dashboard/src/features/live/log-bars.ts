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

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;
const TICK_SECONDS = [10, 30, 60, 300, 600, 1_800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY];
const CLOCK_SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export interface Tick {
  at_ms: number;
  text: string;
}

/** Returns the labels of a time axis: round times of the local time zone, up to `count` intervals. Over a day, midnight is a date. */
export function ticksOf(since_ms: number, until_ms: number, count: number): Tick[] {
  const seconds = TICK_SECONDS.find((step) => until_ms - since_ms <= step * 1_000 * count) ?? 30 * DAY;
  const step = seconds * 1_000;
  const offset = new Date(since_ms).getTimezoneOffset() * MINUTE * 1_000;
  const first = Math.ceil((since_ms - offset) / step) * step + offset;
  const textOf = (at_ms: number): string => {
    const is_midnight = (at_ms - offset) % (DAY * 1_000) === 0;
    const format = until_ms - since_ms > DAY * 1_000 && is_midnight ? DATE : seconds < MINUTE ? CLOCK_SECONDS : CLOCK;
    return format.format(at_ms);
  };
  return Array.from({ length: Math.max(0, Math.floor((until_ms - first) / step) + 1) }, (_, i) => first + i * step).map((at_ms) => ({
    at_ms,
    text: textOf(at_ms),
  }));
}
