import { type Frame, type Point, TILE_PX } from "./frames.ts";

/** The visible part of a map: the point in the middle, and pixels for each unit of the frame. */
export interface Camera extends Point {
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

/** Free pixels around the outermost robots, and the largest part of a small map that they take on each side. */
const MARGIN_PX = 80;
const MARGIN_PART = 1 / 6;
/** The longer side of the map shows at least this many meters, for example around a single robot. */
const SHOWN_METERS_MIN = 40;

const clamp = (value: number, { scale_min, scale_max }: Frame): number => Math.max(scale_min, Math.min(scale_max, value));

/** Returns the camera that shows all points. Without points, shows the whole world, or 100 m of a floor plan. */
export function fit(points: readonly Point[], frame: Frame, { width, height }: Size): Camera {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  if (points.length === 0) [left, right, top, bottom] = frame.metersPerUnit(0) === 1 ? [0, 100, -100, 0] : [0, 1, 0.2, 0.8];
  const x = (left + right) / 2;
  const y = (top + bottom) / 2;
  const least = SHOWN_METERS_MIN / frame.metersPerUnit(y);
  const inside = (pixels: number): number => Math.max(1, pixels - 2 * Math.min(MARGIN_PX, pixels * MARGIN_PART));
  const scale = Math.min(inside(width) / (right - left), inside(height) / (bottom - top), Math.max(inside(width), inside(height)) / least);
  return { x, y, scale: clamp(scale, frame) };
}

/** Zooms by a factor. The point under `at`, in pixels from the middle, stays where it is. */
export function zoom(camera: Camera, frame: Frame, factor: number, at: Point = { x: 0, y: 0 }): Camera {
  const scale = clamp(camera.scale * factor, frame);
  return {
    x: camera.x + at.x / camera.scale - at.x / scale,
    y: camera.y + at.y / camera.scale - at.y / scale,
    scale,
  };
}

/** Moves the map by pixels. */
export const pan = ({ x, y, scale }: Camera, by: Point): Camera => ({ x: x - by.x / scale, y: y - by.y / scale, scale });

/** Robots that are drawn as one marker. */
export interface Cluster<Item> extends Point {
  key: string;
  items: readonly Item[];
}

/**
 * Groups points that are in one cell of a square grid. The grid belongs to the map, so that groups stay the same while the map moves. A
 * group is drawn at the mean of its points.
 */
export function cluster<Item extends Point>(items: readonly Item[], cell: number): Cluster<Item>[] {
  const cells = Map.groupBy(items, ({ x, y }) => `${Math.floor(x / cell)} ${Math.floor(y / cell)}`);
  return Array.from(cells, ([key, inside]) => ({
    key,
    items: inside,
    x: inside.reduce((sum, { x }) => sum + x, 0) / inside.length,
    y: inside.reduce((sum, { y }) => sum + y, 0) / inside.length,
  }));
}

export interface Tile extends Point {
  key: string;
  url: string;
  /** The size in units of the frame. */
  size: number;
}

const TILES_MAX = 200;
const LEVEL_MAX = 19;

/** Returns the tiles of the world that are visible. `template` contains {z}, {x} and {y}. */
export function tiles(template: string, { x, y, scale }: Camera, { width, height }: Size): Tile[] {
  const level = Math.max(0, Math.min(LEVEL_MAX, Math.round(Math.log2(scale / TILE_PX))));
  const count = 2 ** level;
  const of = (value: number): number => Math.max(0, Math.min(count - 1, Math.floor(value * count)));
  const found: Tile[] = [];
  for (let row = of(y - height / 2 / scale); row <= of(y + height / 2 / scale); row += 1)
    for (let column = of(x - width / 2 / scale); column <= of(x + width / 2 / scale) && found.length < TILES_MAX; column += 1) {
      const url = template.replaceAll("{z}", `${level}`).replaceAll("{x}", `${column}`).replaceAll("{y}", `${row}`);
      found.push({ key: `${level}/${column}/${row}`, url, x: column / count, y: row / count, size: 1 / count });
    }
  return found;
}
