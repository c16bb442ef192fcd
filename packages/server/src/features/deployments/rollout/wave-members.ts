import type { WholeRollout } from "@roamfleet/protocol/routes";

export type Wave = NonNullable<WholeRollout["waves"]>[number];

/**
 * Returns how many of all targets are in this wave and those before it; null for a wave by labels, which contains the robots that match.
 * `percent` and `count` refer to all targets, rounded up. Pure.
 */
export function reachOf({ percent, count }: Wave, total: number): number | null {
  if (percent !== undefined) return Math.min(total, Math.ceil((percent * total) / 100));
  return count === undefined ? null : Math.min(total, count);
}

const matches = (labels: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean =>
  Object.entries(wanted).every(([key, value]) => labels[key] === value);

/** Returns the wave of each robot, in the order of their ids; robots in no wave are in the last, implicit one. Pure. */
export function assignWaves(robots: readonly { labels: Readonly<Record<string, string>> }[], waves: readonly Wave[]): number[] {
  const rest = waves.length;
  const of_robot = robots.map(() => rest);
  let assigned = 0;
  for (const [number, wave] of waves.entries()) {
    const reach = reachOf(wave, robots.length);
    for (const [i, { labels }] of robots.entries()) {
      if (reach !== null && assigned >= reach) break;
      if (of_robot[i] !== rest || (reach === null && !matches(labels, wave.labels ?? {}))) continue;
      of_robot[i] = number;
      assigned += 1;
    }
  }
  return of_robot;
}
