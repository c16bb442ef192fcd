import type { RobotPosition } from "@roamfleet/protocol/routes";

type Coordinates = NonNullable<RobotPosition["position"]>;

/** A point of a map. x grows to the right, y grows down. */
export interface Point {
  x: number;
  y: number;
}

/** A coordinate system: the whole world in Web Mercator, or the floor plan of one site in meters. */
export interface Frame {
  /** Returns the point of a position; undefined if the robot reports no coordinates of this frame. */
  project: (position: Coordinates) => Point | undefined;
  /** Meters in one unit of the frame, at a point. */
  metersPerUnit: (y: number) => number;
  /** Bounds of the zoom, in pixels for each unit. */
  scale_min: number;
  scale_max: number;
  /** Returns the text of a robot's coordinates. */
  textOf: (position: Coordinates) => string;
  /** Lines of the grid between two points: at most about `count` in each direction. */
  grid: (from: Point, to: Point, count: number) => { x: GridLine[]; y: GridLine[] };
}

export interface GridLine {
  at: number;
  label: string;
}

const EARTH_METERS = 40_075_016.686;
/** Web Mercator ends here: the map is then a square. */
const LATITUDE_MAX = 85.05112878;
export const TILE_PX = 256;
/** The most detailed level of common tile servers. */
const LEVEL_MAX = 19;

const mercatorY = (latitude: number): number => {
  const radians = (Math.max(-LATITUDE_MAX, Math.min(LATITUDE_MAX, latitude)) * Math.PI) / 180;
  return 0.5 - Math.log(Math.tan(Math.PI / 4 + radians / 2)) / (2 * Math.PI);
};
const latitudeOf = (y: number): number => (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI;

/** The world. One unit is the length of the equator. */
export const GEOGRAPHIC: Frame = {
  project: ({ latitude_degrees, longitude_degrees }) =>
    latitude_degrees === null || longitude_degrees === null
      ? undefined
      : { x: longitude_degrees / 360 + 0.5, y: mercatorY(latitude_degrees) },
  metersPerUnit: (y) => EARTH_METERS * Math.cos((latitudeOf(y) * Math.PI) / 180),
  scale_min: TILE_PX / 2,
  scale_max: TILE_PX * 2 ** (LEVEL_MAX + 3),
  textOf: ({ latitude_degrees, longitude_degrees }) => `${latitude_degrees?.toFixed(6)}°, ${longitude_degrees?.toFixed(6)}°`,
  grid: (from, to, count) => {
    const step = roundStep(((to.x - from.x) * 360) / count);
    const text = (degrees: number): string => `${degrees.toFixed(decimals(step))}°`;
    return {
      x: steps((from.x - 0.5) * 360, (to.x - 0.5) * 360, step)
        .filter((degrees) => Math.abs(degrees) <= 180)
        .map((degrees) => ({ at: degrees / 360 + 0.5, label: text(degrees) })),
      y: steps(latitudeOf(to.y), latitudeOf(from.y), step).map((degrees) => ({ at: mercatorY(degrees), label: text(degrees) })),
    };
  },
};

/** A floor plan. One unit is a meter; the y axis of robots points up. */
export const FLOOR_PLAN: Frame = {
  project: ({ x_meters, y_meters }) => (x_meters === null || y_meters === null ? undefined : { x: x_meters, y: -y_meters }),
  metersPerUnit: () => 1,
  scale_min: 0.001,
  scale_max: 1_000,
  textOf: ({ x_meters, y_meters }) => `x ${x_meters?.toFixed(2)} m, y ${y_meters?.toFixed(2)} m`,
  grid: (from, to, count) => {
    const step = roundStep((to.x - from.x) / count);
    const text = (meters: number): string => `${meters.toFixed(decimals(step))} m`;
    return {
      x: steps(from.x, to.x, step).map((meters) => ({ at: meters, label: text(meters) })),
      y: steps(-to.y, -from.y, step).map((meters) => ({ at: -meters, label: text(meters) })),
    };
  },
};

/** Returns the smallest of 1, 2 and 5 times a power of ten that is at least `least`. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((digit) => digit * power >= least) ?? 10);
}

const decimals = (step: number): number => Math.max(0, Math.min(8, -Math.floor(Math.log10(step))));

const LINES_MAX = 100;
const steps = (from: number, to: number, step: number): number[] => {
  const first = Math.ceil(from / step);
  const count = Math.min(LINES_MAX, Math.floor(to / step) - first + 1);
  return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step);
};
