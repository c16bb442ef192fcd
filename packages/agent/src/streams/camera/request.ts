import { CAMERA_BOUNDS } from "@roamfleet/protocol/link";

const FPS_DEFAULT = 15;
export const QUALITY_DEFAULT = 80;

/** What somebody wants to see of a camera. */
export interface CameraRequest {
  /** Undefined: the first. */
  camera: string | undefined;
  /** Frames a second, at most. */
  fps: number;
  /** Pixels, at most; undefined: as the camera has it. */
  width: number | undefined;
  height: number | undefined;
  /** 1 to 100; undefined: as the camera has it, or QUALITY_DEFAULT where there is none yet. */
  quality: number | undefined;
}

/** Reads what a server asked for; a text says what is wrong with it. */
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

/** What a source is to make: size and quality, and how many of it. */
export interface Picture {
  fps: number;
  /** Pixels, at most, before `scale`. */
  width: number | undefined;
  height: number | undefined;
  /** Undefined: as it comes, where it comes as JPEG. */
  quality: number | undefined;
  /** Part of the width and height that is left, up to 1. */
  scale: number;
}

/** What is given up when a line does not even carry a few frames a second: quality first, then size. */
const LEVELS = [
  { quality: 1, scale: 1 },
  { quality: 0.65, scale: 1 },
  { quality: 0.5, scale: 0.7 },
  { quality: 0.4, scale: 0.5 },
  { quality: 0.3, scale: 0.35 },
] as const;
export const LEVELS_COUNT = LEVELS.length;
/** Below this a picture shows nothing any more; somebody who asked for less gets that. */
const QUALITY_FLOOR = 15;

/** The picture of a request at a level: 0 is what was asked for. */
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

/** True when frames that come as JPEG can be handed on as they are. */
export const isUnchanged = ({ width, height, quality, scale }: Picture): boolean =>
  width === undefined && height === undefined && quality === undefined && scale === 1;
