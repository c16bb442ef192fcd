import type { HealthPoint } from "@roamfleet/protocol/routes";

/** Points that the server is asked for. */
export const HISTORY_POINTS = 300;
const MINUTE_SECONDS = 60;
/** A robot tells once a minute. Nothing for so many times as long as one point stands for is a gap. */
const GAP_POINTS = 3;

export interface Series {
  label: string;
  values: (number | null)[];
}

export interface HealthSeries {
  /** Seconds since 1970, one for each value. */
  times: number[];
  cpu: Series[];
  memory: Series[];
  disks: Series[];
  temperature: Series[];
  battery: Series[];
}

/** What one point of a range stands for, in seconds. */
export const pointSeconds = (range_seconds: number): number => Math.max(MINUTE_SECONDS, Math.ceil(range_seconds / HISTORY_POINTS));

/** The beginning of the range that ends now, moved on by whole points, so that looking again in a while is the same question. */
export function sinceOf(now_ms: number, range_seconds: number): string {
  const step_ms = pointSeconds(range_seconds) * 1_000;
  return new Date(Math.floor(now_ms / step_ms) * step_ms - range_seconds * 1_000).toISOString();
}

/** Lines to draw: where the robot said nothing for a while each of them has a gap. */
export function seriesOf(points: readonly HealthPoint[], range_seconds: number): HealthSeries {
  const gap_seconds = GAP_POINTS * pointSeconds(range_seconds);
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

/** Where the values are that have none beside them, so that no line is drawn to them; null when there are none. */
export function lonely(values: readonly (number | null)[]): number[] | null {
  const there = (at: number): boolean => (values[at] ?? null) !== null;
  const found = [...values.keys()].filter((at) => there(at) && !there(at - 1) && !there(at + 1));
  return found.length === 0 ? null : found;
}

export const hasValues = (series: readonly Series[]): boolean => series.some(({ values }) => values.some((value) => value !== null));

/** What a chart shows, for who cannot see it. */
export function chartText(title: string, unit: string, series: readonly Series[]): string {
  const texts = series.map(({ label, values }) => {
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return `${label}: nothing`;
    const [least, most] = [Math.min(...known), Math.max(...known)];
    return `${label}: from ${Math.round(least)} to ${Math.round(most)} ${unit}, last ${Math.round(known.at(-1)!)}`;
  });
  return `${title}. ${texts.join("; ")}`;
}
