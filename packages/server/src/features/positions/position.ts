import type { Series } from "@roamfleet/protocol/link";

/** The names of the metrics by which a robot reports its position. */
const NAMES = {
  latitude: "position_latitude_degrees",
  longitude: "position_longitude_degrees",
  x: "position_x_meters",
  y: "position_y_meters",
  heading: "position_heading_degrees",
} as const;

/** Two coordinates are one position only if their samples are at most this far apart. */
const APART_MS_MAX = 60_000;
const METERS_MAX = 1_000_000;
const TURN_DEGREES = 360;

/** A position. Without geographic coordinates, `latitude_degrees` and `longitude_degrees` are null; without a floor plan's, x and y. */
export interface Position {
  at: Date;
  latitude_degrees: number | null;
  longitude_degrees: number | null;
  x_meters: number | null;
  y_meters: number | null;
  heading_degrees: number | null;
}

interface Sample {
  time: number;
  value: number;
}

/**
 * Returns the newest position in the series of a robot; undefined if they have none. Values beyond their range are ignored. Of several
 * series with one name, the newest sample counts. Pure.
 */
export function positionIn(series: readonly Series[]): Position | undefined {
  const newest = (name: string, min: number, max: number): Sample | undefined => {
    let found: Sample | undefined;
    for (const one of series)
      if (one.name === name)
        for (const [i, time] of one.times.entries()) {
          const value = one.values[i] ?? Number.NaN;
          if (value >= min && value <= max && (found === undefined || time > found.time)) found = { time, value };
        }
    return found;
  };
  const geographic = pair(newest(NAMES.latitude, -90, 90), newest(NAMES.longitude, -180, 180));
  const planar = pair(newest(NAMES.x, -METERS_MAX, METERS_MAX), newest(NAMES.y, -METERS_MAX, METERS_MAX));
  if (geographic === undefined && planar === undefined) return undefined;
  const time = Math.max(geographic?.time ?? -Infinity, planar?.time ?? -Infinity);
  const isCurrent = (one: { time: number } | undefined): boolean => one !== undefined && time - one.time <= APART_MS_MAX;
  const heading = newest(NAMES.heading, -TURN_DEGREES, TURN_DEGREES);
  return {
    at: new Date(time),
    latitude_degrees: isCurrent(geographic) ? geographic!.first : null,
    longitude_degrees: isCurrent(geographic) ? geographic!.second : null,
    x_meters: isCurrent(planar) ? planar!.first : null,
    y_meters: isCurrent(planar) ? planar!.second : null,
    heading_degrees: isCurrent(heading) ? (heading!.value + TURN_DEGREES) % TURN_DEGREES : null,
  };
}

/** Returns two coordinates of one position; undefined if one is missing or was not sampled with the other. */
function pair(first: Sample | undefined, second: Sample | undefined): { first: number; second: number; time: number } | undefined {
  if (first === undefined || second === undefined || Math.abs(first.time - second.time) > APART_MS_MAX) return undefined;
  return { first: first.value, second: second.value, time: Math.max(first.time, second.time) };
}
