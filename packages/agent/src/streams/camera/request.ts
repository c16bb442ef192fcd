import { CAMERA_BOUNDS } from "@roamfleet/protocol/link";

const FPS_DEFAULT = 15;
export const QUALITY_DEFAULT = 80;

/** A client's request for a camera. */
export interface CameraRequest {
  /** Undefined: the first camera. */
  camera: string | undefined;
  /** Maximum frames per second. */
  fps: number;
  /** Maximum pixels; undefined: the camera's own. */
  width: number | undefined;
  height: number | undefined;
  /** 1 to 100; undefined: the camera's own, or QUALITY_DEFAULT if it has none. */
  quality: number | undefined;
}

/** Parses a request of the server; `fault` describes an error. */
export function readCameraRequest(params: unknown): CameraRequest | "list" | { fault: string } {
  const given = typeof params === "object" && params !== null ? (params as Record<string, unknown>) : {};
  if (given.list === true) return "list";
  const { camera } = given;
  if (camera !== undefined && typeof camera !== "string") return { fault: "camera is no name" };
  const numbers: Partial<Record<keyof typeof CAMERA_BOUNDS, number>> = {};
  for (const name of ["fps", "width", "height", "quality"] as const) {
    const value = given[name];
    if (value === undefined) continue;
    const { minimum, maximum } = CAMERA_BOUNDS[name];
    const whole = name === "fps" || Number.isInteger(value);
    if (typeof value !== "number" || !whole || !(value >= minimum && value <= maximum))
      return { fault: `${name} is a number from ${minimum} to ${maximum}` };
    numbers[name] = value;
  }
  return { camera, fps: numbers.fps ?? FPS_DEFAULT, width: numbers.width, height: numbers.height, quality: numbers.quality };
}

/** The picture that a source produces: size, quality and rate. */
export interface Picture {
  fps: number;
  /** Maximum pixels, before `scale`. */
  width: number | undefined;
  height: number | undefined;
  /** Undefined: unchanged, if the frames are already JPEG. */
  quality: number | undefined;
  /** Factor for width and height, at most 1. */
  scale: number;
}

/** Reductions if the network does not carry even a few frames a second: quality first, then size. */
const LEVELS = [
  { quality: 1, scale: 1 },
  { quality: 0.65, scale: 1 },
  { quality: 0.5, scale: 0.7 },
  { quality: 0.4, scale: 0.5 },
  { quality: 0.3, scale: 0.35 },
] as const;
export const LEVELS_COUNT = LEVELS.length;
/** Below this a picture is useless; a client that requests less gets that. */
const QUALITY_FLOOR = 15;

/** Returns the picture of a request at a level: 0 is as requested. */
export function pictureAt({ fps, width, height, quality }: CameraRequest, level: number): Picture {
  const given_up = LEVELS[Math.min(level, LEVELS_COUNT - 1)] ?? LEVELS[0];
  if (given_up === LEVELS[0]) return { fps, width, height, quality, scale: 1 };
  const asked = quality ?? QUALITY_DEFAULT;
  return {
    fps,
    width,
    height,
    quality: Math.min(asked, Math.max(QUALITY_FLOOR, Math.round(asked * given_up.quality))),
    scale: given_up.scale,
  };
}

/** True if frames that are already JPEG can be passed on unchanged. */
export const isUnchanged = ({ width, height, quality, scale }: Picture): boolean =>
  width === undefined && height === undefined && quality === undefined && scale === 1;
