import { CAMERA_BOUNDS } from "@roamfleet/protocol/link";
import { fieldsOf } from "../../json.ts";
import type { CameraSource } from "../../config-file/robot-config.ts";

const FPS_DEFAULT = 15;
export const QUALITY_DEFAULT = 80;

export interface CameraRequest {
  /** Name of the requested camera. Undefined: the first camera. */
  camera: string | undefined;
  /** Maximum frames per second. */
  fps: number;
  /**
   * Maximum width in pixels; `height` is the same for the height. Undefined: the camera's own size.
   */
  width: number | undefined;
  height: number | undefined;
  /**
   * Quality from 1 to 100. Undefined: the camera's own, or QUALITY_DEFAULT if the camera has none.
   */
  quality: number | undefined;
}

/**
 * Parses a request for a camera's frames or for the list of cameras. If it is invalid, returns
 * `fault` with a description.
 */
export function readCameraRequest(params: unknown): CameraRequest | "list" | { fault: string } {
  const given = fieldsOf(params);
  if (given.list === true) return "list";
  const { camera } = given;
  if (camera !== undefined && typeof camera !== "string") return { fault: "camera must be a string: the name of a camera" };
  const numbers: Partial<Record<keyof typeof CAMERA_BOUNDS, number>> = {};
  for (const name of ["fps", "width", "height", "quality"] as const) {
    const value = given[name];
    if (value === undefined) continue;
    const { minimum, maximum } = CAMERA_BOUNDS[name];
    const whole = name === "fps" || Number.isInteger(value);
    if (typeof value !== "number" || !whole || !(value >= minimum && value <= maximum))
      return { fault: `${name} must be a number from ${minimum} to ${maximum}` };
    numbers[name] = value;
  }
  return { camera, fps: numbers.fps ?? FPS_DEFAULT, width: numbers.width, height: numbers.height, quality: numbers.quality };
}

/** The picture that a source produces: size, quality and rate. */
export interface Picture {
  fps: number;
  /** Maximum width in pixels, before `scale` is applied; `height` is the same for the height. */
  width: number | undefined;
  height: number | undefined;
  /** Quality from 1 to 100. Undefined: unchanged if the frames are already JPEG. */
  quality: number | undefined;
  /** Factor by which width and height are reduced, at most 1. */
  scale: number;
}

/**
 * Steps by which a picture is reduced if the network cannot carry even a few frames a second. The
 * first step reduces only quality, later ones also size.
 */
const LEVELS = [
  { quality: 1, scale: 1 },
  { quality: 0.65, scale: 1 },
  { quality: 0.5, scale: 0.7 },
  { quality: 0.4, scale: 0.5 },
  { quality: 0.3, scale: 0.35 },
] as const;
export const LEVELS_COUNT = LEVELS.length;
/**
 * Minimum quality to which a picture is reduced, since a picture with less is useless. If a client
 * requests less, it gets what it requested.
 */
const QUALITY_FLOOR = 15;

/** Returns the picture for a request, reduced to a level. Level 0 is the picture as requested. */
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

/** Returns whether JPEG frames can be passed on unchanged for this picture. */
export const isUnchanged = ({ width, height, quality, scale }: Picture): boolean =>
  width === undefined && height === undefined && quality === undefined && scale === 1;

export interface SourceEnd {
  /** True if the source failed. False if it ended normally, such as a file. */
  failed: boolean;
  /** Why the source ended, in words for people. It contains no secrets. */
  reason: string;
  /** True if a retry would fail, too. */
  final?: boolean;
}

export interface SourceRun {
  picture: Picture;
  /** Aborting it ends the run. `run` then resolves once all processes of the source are gone. */
  signal: AbortSignal;
  /**
   * Called with each frame: a complete JPEG of at most CAMERA_FRAME_BYTES_MAX. The callee may keep
   * its memory.
   */
  frame: (jpeg: Uint8Array) => void;
  /** Called when a frame is larger than CAMERA_FRAME_BYTES_MAX. */
  refused: () => void;
}

export interface FrameSource {
  readonly kind: CameraSource["kind"];
  /** Returns whether the source can change the size and quality of its pictures. */
  adjustable(): boolean;
  /** Produces frames until the signal is aborted or the source ends. Never rejects. */
  run(run: SourceRun): Promise<SourceEnd>;
}

/** Time in milliseconds without a picture after which a source counts as failed. */
export const FRAME_IDLE_MS = 20_000;

const KEPT_CHARACTERS = 4_096;
/**
 * Maximum characters of a reason. With a short prefix it must fit into the close frame of a
 * WebSocket (123 bytes).
 */
const SAID_CHARACTERS = 90;

/** Stores the last characters of a program's stderr. */
export class StderrTail {
  #text = "";

  push(chunk: Uint8Array | string): void {
    this.#text = (this.#text + String(chunk)).slice(-KEPT_CHARACTERS);
  }

  /**
   * Returns the last line of the output, without memory addresses and secrets; undefined if there
   * was no output.
   */
  get line(): string | undefined {
    const lines = this.#text
      .split(/[\r\n]+/)
      .map((line) => withoutSecrets(line.replace(/^\[[^\]]*@ 0x[\da-f]+\]\s*/, "")).trim())
      .filter((line) => line !== "");
    return lines.at(-1)?.slice(0, SAID_CHARACTERS);
  }
}

/**
 * Shortens each URL in a text to scheme and host, since many cameras have a password in the path.
 */
export function withoutSecrets(text: string): string {
  return text.replace(/\b([a-z][a-z\d+.-]*:\/\/)(?:[^\s/@]*@)*([^\s/?#'"]*)(?:[/?#][^\s'"]*?(?=:?(?:[\s'"]|$)))?/gi, "$1$2");
}
