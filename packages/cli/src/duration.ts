import { InvalidArgumentError } from "commander";

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
] as const;

/** Formats a duration in its largest whole unit: `3 min`. */
export function duration(seconds: number): string {
  for (const [unit, length] of UNITS) if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  return "0 s";
}

/** Formats a relative time: `3 min ago`, `in 2 h`; `never` for null. */
export function relative(time: string | null | undefined, now: Date): string {
  if (time === null || time === undefined) return "never";
  const seconds = (now.getTime() - Date.parse(time)) / 1000;
  if (Number.isNaN(seconds)) return time;
  if (Math.abs(seconds) < 5) return "just now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** Formats bytes: `4.2 MB`. */
export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = count;
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

const LENGTHS: Record<string, number> = { s: 1, m: 60, min: 60, h: 3_600, d: 86_400 };

/** Parses an option that is a duration, in seconds: `90s`, `10m`, `2h`, `3d`. */
export function seconds(text: string): number {
  const match = /^(\d{1,9})(s|m|min|h|d)$/.exec(text);
  if (match === null) throw new InvalidArgumentError("Expected a duration such as 90s, 10m, 2h or 3d.");
  return Number(match[1]) * (LENGTHS[match[2] ?? ""] ?? 1);
}

/** A parsed time, resolved when the request is made. */
export type TimeOption = (now: Date) => string;

/** Parses a relative (`10m` ago) or absolute time. */
export function readTime(text: string): TimeOption {
  if (/^\d+[a-z]+$/.test(text)) {
    const ago = seconds(text);
    return (now) => new Date(now.getTime() - ago * 1_000).toISOString();
  }
  const at = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(at.getTime()))
    throw new InvalidArgumentError("Expected a duration such as 10m, 2h or 3d, or a time such as 2030-01-01T08:00:00Z.");
  return () => at.toISOString();
}
