import type { CameraSource } from "../../config-file/robot-config.ts";
import type { Picture } from "./request.ts";

/** Why a source ended. */
export interface SourceEnd {
  /** False: it ended normally, such as a file. */
  failed: boolean;
  /** For people, without secrets. */
  reason: string;
  /** A retry would fail, too. */
  final?: boolean;
}

export interface SourceRun {
  picture: Picture;
  /** Ends the run; `run` resolves once all its processes are gone. */
  signal: AbortSignal;
  /** Receives a frame: a complete JPEG of at most CAMERA_FRAME_BYTES_MAX in separate memory. */
  frame: (jpeg: Uint8Array) => void;
  /** Called for a frame over CAMERA_FRAME_BYTES_MAX. */
  refused: () => void;
}

/** A source of a camera's frames. */
export interface FrameSource {
  readonly kind: CameraSource["kind"];
  /** Whether size and quality can be changed. */
  adjustable(): Promise<boolean>;
  /** Produces frames until the signal is aborted or the source ends. Never rejects. */
  run(run: SourceRun): Promise<SourceEnd>;
}

/** After so long without a picture the source counts as failed. */
export const FRAME_SILENCE_MS = 20_000;
