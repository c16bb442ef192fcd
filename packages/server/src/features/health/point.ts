import type { HealthBody } from "@roamfleet/protocol/link";
import type { HealthPoint } from "@roamfleet/protocol/routes";

/** The values of a snapshot that are shown as history. */
type Point = Omit<HealthPoint, "at">;
export type TimedPoint = Point & { at: Date };

/** Maximum disks in a point. The first disks in the robot's list are kept. */
const DISKS_MAX = 8;

/** The parts of a snapshot from which a point is computed. */
export type Drawn = Pick<HealthBody, "cpu" | "memory" | "battery" | "disks">;

export const pointOf = ({ cpu, memory, battery, disks }: Drawn): Point => ({
  cpu_percent: tenth(cpu.percent),
  load_1m: Math.round(cpu.load_1m * 100) / 100,
  memory_percent: percent(memory),
  temperature_celsius: cpu.temperature_celsius === null ? null : tenth(cpu.temperature_celsius),
  battery_percent: battery === null ? null : tenth(battery.percent),
  disks: disks
    .flatMap((disk) => {
      const used = percent(disk);
      return used === null ? [] : [{ mount: disk.mount, percent: used }];
    })
    .slice(0, DISKS_MAX),
});

const tenth = (value: number): number => Math.round(value * 10) / 10;
const percent = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): number | null =>
  total_bytes > 0 ? tenth((used_bytes / total_bytes) * 100) : null;

/**
 * The stored form of points. `mounts` has the name of each disk once. Each point has its seconds after the first point, and then its
 * values.
 */
interface Packed {
  mounts: string[];
  points: [seconds: number, ...values: (number | null)[]][];
}
const VALUES = ["cpu_percent", "load_1m", "memory_percent", "temperature_celsius", "battery_percent"] as const;

/** Encodes the points of one robot. Rounds times to seconds. `unpack` decodes the points, given the time of the first one. */
export function pack(points: readonly TimedPoint[]): string {
  const first = points[0]?.at.getTime() ?? 0;
  const mounts = [...new Set(points.flatMap(({ disks }) => disks.map(({ mount }) => mount)))].slice(0, DISKS_MAX);
  const packed: Packed = {
    mounts,
    points: points.map((point) => [
      Math.round((point.at.getTime() - first) / 1000),
      ...VALUES.map((name) => point[name]),
      ...mounts.map((mount) => point.disks.find((disk) => disk.mount === mount)?.percent ?? null),
    ]),
  };
  return JSON.stringify(packed);
}

export function unpack(first_at: Date, text: string): TimedPoint[] {
  const { mounts, points } = JSON.parse(text) as Packed;
  return points.map(([seconds, cpu, load, memory, temperature, battery, ...disks]) => ({
    at: new Date(first_at.getTime() + seconds * 1000),
    cpu_percent: cpu ?? 0,
    load_1m: load ?? 0,
    memory_percent: memory ?? null,
    temperature_celsius: temperature ?? null,
    battery_percent: battery ?? null,
    disks: mounts.flatMap((mount, i) => {
      const used = disks[i];
      return used === null || used === undefined ? [] : [{ mount, percent: used }];
    }),
  }));
}

/**
 * Reduces points, sorted by time, to at most `count`. Each returned point is the mean of one interval, with the time of the interval's
 * first point.
 */
export function thin(points: readonly TimedPoint[], since: Date, until: Date, count: number): TimedPoint[] {
  if (points.length <= count) return [...points];
  const span = Math.max(1, (until.getTime() - since.getTime()) / count);
  const parts = Map.groupBy(points, ({ at }) => Math.min(count - 1, Math.floor((at.getTime() - since.getTime()) / span)));
  return Array.from(parts.values(), meanOf);
}

function meanOf(points: TimedPoint[]): TimedPoint {
  const mean = (values: readonly (number | null)[]): number | null => {
    const known = values.filter((value) => value !== null);
    return known.length === 0 ? null : tenth(known.reduce((sum, value) => sum + value, 0) / known.length);
  };
  const disks = Map.groupBy(
    points.flatMap((point) => point.disks),
    ({ mount }) => mount,
  );
  return {
    at: points[0]?.at ?? new Date(0),
    cpu_percent: mean(points.map((point) => point.cpu_percent)) ?? 0,
    load_1m: mean(points.map((point) => point.load_1m)) ?? 0,
    memory_percent: mean(points.map((point) => point.memory_percent)),
    temperature_celsius: mean(points.map((point) => point.temperature_celsius)),
    battery_percent: mean(points.map((point) => point.battery_percent)),
    disks: Array.from(disks, ([mount, of]) => ({ mount, percent: mean(of.map((disk) => disk.percent)) ?? 0 })),
  };
}
