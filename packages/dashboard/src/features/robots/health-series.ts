import type { HealthPoint } from "@roamfleet/protocol/routes";

/** Number of data points requested for a range. */
export const HISTORY_POINTS = 300;
const MINUTE_SECONDS = 60;
/** If a robot reports nothing for more than this many point intervals, the chart shows a gap. */
const GAP_POINTS = 3;
/** The chart shows no shorter gaps: a robot whose health does not change reports it every five minutes. */
const GAP_SECONDS_MIN = 660;

export interface Series {
  label: string;
  values: (number | null)[];
}

export interface HealthSeries {
  /** Time of each value, in seconds since 1970. */
  times: number[];
  cpu: Series[];
  memory: Series[];
  disks: Series[];
  temperature: Series[];
  battery: Series[];
}

/** Returns the interval between the points of a range, in seconds. */
const pointSeconds = (range_seconds: number): number => Math.max(MINUTE_SECONDS, Math.ceil(range_seconds / HISTORY_POINTS));

/** Returns the start of the range that ends now, aligned to the point interval, so that repeated queries have the same key. */
export function sinceOf(now_ms: number, range_seconds: number): string {
  const step_ms = pointSeconds(range_seconds) * 1_000;
  return new Date(Math.floor(now_ms / step_ms) * step_ms - range_seconds * 1_000).toISOString();
}

/** Converts health points to chart series, with null values as gaps where the robot did not report. */
export function seriesOf(points: readonly HealthPoint[], range_seconds: number): HealthSeries {
  const gap_seconds = Math.max(GAP_SECONDS_MIN, GAP_POINTS * pointSeconds(range_seconds));
  const times: number[] = [];
  const at: (HealthPoint | undefined)[] = [];
  for (const point of points) {
    const seconds = Date.parse(point.at) / 1_000;
    const last = times.at(-1);
    if (last !== undefined && seconds <= last) continue;
    if (last !== undefined && seconds - last > gap_seconds) {
      times.push((last + seconds) / 2);
      at.push(undefined);
    }
    times.push(seconds);
    at.push(point);
  }
  const line = (label: string, read: (point: HealthPoint) => number | null | undefined): Series => ({
    label,
    values: at.map((point) => (point === undefined ? null : (read(point) ?? null))),
  });
  const mounts = [...new Set(points.flatMap(({ disks }) => disks.map(({ mount }) => mount)))];
  return {
    times,
    cpu: [line("CPU", ({ cpu_percent }) => cpu_percent)],
    memory: [line("Memory", ({ memory_percent }) => memory_percent)],
    disks: mounts.map((mount) => line(mount, ({ disks }) => disks.find((disk) => disk.mount === mount)?.percent)),
    temperature: [line("Temperature", ({ temperature_celsius }) => temperature_celsius)],
    battery: [line("Battery", ({ battery_percent }) => battery_percent)],
  };
}

/** Returns the indexes of isolated values, which no line connects and which need a point; null if there are none. */
export function lonely(values: readonly (number | null)[]): number[] | null {
  const there = (at: number): boolean => (values[at] ?? null) !== null;
  const found = [...values.keys()].filter((at) => there(at) && !there(at - 1) && !there(at + 1));
  return found.length === 0 ? null : found;
}

export const hasValues = (series: readonly Series[]): boolean => series.some(({ values }) => values.some((value) => value !== null));

/** Formats a value with its unit: "1,234 B", "0.52 GB/s", "31.2%". */
export function valueText(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "—";
  const rounded = Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
  return `${rounded.toLocaleString()}${/^[%/]|^$/.test(unit) ? "" : " "}${unit}`;
}

/** Describes a chart in words, for screen readers. */
export function chartText(title: string, unit: string, series: readonly Series[]): string {
  const texts = series.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${label}: no data`;
    const [least, most] = [Math.min(...known), Math.max(...known)];
    return `${label}: from ${valueText(least, unit)} to ${valueText(most, unit)}, last ${valueText(known.at(-1), unit)}`;
  });
  return `${title}. ${texts.join("; ")}`;
}
