import { CAMERA_BOUNDS } from "@roamfleet/protocol/link";
import { fieldsOf } from "../../json.ts";
import type { CameraSource } from "../../config-file/robot-config.ts";

const FPS_DEFAULT = 15;
export const QUALITY_DEFAULT = 80;

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
  const given = fieldsOf(params);
  if (given.list === true) return "list";
  const { camera } = given;
  if (camera !== undefined && typeof camera !== "string") return { fault: "camera must be a name" };
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
  /** Maximum pixels, before `scale`. */
  width: number | undefined;
  height: number | undefined;
  /** Undefined: unchanged, if the frames are already JPEG. */
  quality: number | undefined;
  /** Factor for width and height, at most 1. */
  scale: number;
}

/**
 * Steps of reduction while the network does not carry even a few frames a second: quality first,
 * then size.
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
 * Minimum quality to which a picture is reduced; below it, a picture is useless. A client that
 * requests less gets what it requested.
 */
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

export interface SourceEnd {
  /** False if the source ended normally, such as a file. */
  failed: boolean;
  /** For people, without secrets. */
  reason: string;
  /** True if a retry would fail, too. */
  final?: boolean;
}

export interface SourceRun {
  picture: Picture;
  /** Aborting it ends the run. `run` then resolves once all processes of the source are gone. */
  signal: AbortSignal;
  /** Receives a frame: a complete JPEG of at most CAMERA_FRAME_BYTES_MAX in separate memory. */
  frame: (jpeg: Uint8Array) => void;
  /** Called for a frame over CAMERA_FRAME_BYTES_MAX. */
  refused: () => void;
}

export interface FrameSource {
  readonly kind: CameraSource["kind"];
  /** Whether size and quality can be changed. */
  adjustable(): boolean;
  /** Produces frames until the signal is aborted or the source ends. Never rejects. */
  run(run: SourceRun): Promise<SourceEnd>;
}

/** A source that produces no picture for this long counts as failed. */
export const FRAME_IDLE_MS = 20_000;

const KEPT_CHARACTERS = 4_096;
/**
 * Maximum characters of a reason, so that it fits into a WebSocket's close frame (123 bytes) after a
 * short prefix.
 */
const SAID_CHARACTERS = 90;

/** Keeps the end of a program's standard error output. */
export class StderrTail {
  #text = "";

  push(chunk: Uint8Array | string): void {
    this.#text = (this.#text + String(chunk)).slice(-KEPT_CHARACTERS);
  }

  /** The last line, without memory addresses and secrets; undefined if there was no output. */
  get line(): string | undefined {
    const lines = this.#text
      .split(/[\r\n]+/)
      .map((line) => withoutSecrets(line.replace(/^\[[^\]]*@ 0x[\da-f]+\]\s*/, "")).trim())
      .filter((line) => line !== "");
    return lines.at(-1)?.slice(0, SAID_CHARACTERS);
  }
}

/** Reduces each URL in a text to scheme and host, since many cameras have a password in the path. */
export function withoutSecrets(text: string): string {
  return text.replace(/\b([a-z][a-z\d+.-]*:\/\/)(?:[^\s/@]*@)*([^\s/?#'"]*)(?:[/?#][^\s'"]*?(?=:?(?:[\s'"]|$)))?/gi, "$1$2");
}
