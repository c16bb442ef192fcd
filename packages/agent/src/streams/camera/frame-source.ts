import type { CameraSource } from "../../config-file/robot-config.ts";
import type { Picture } from "./request.ts";

/** Why a source ended. */
export interface SourceEnd {
  /** False: it came to its end in good order, such as that of a file. */
  failed: boolean;
  /** For people, without secrets. */
  reason: string;
  /** Trying again is of no use. */
  final?: boolean;
}

export interface SourceRun {
  picture: Picture;
  /** Ends it; `run` resolves once everything that it started is gone. */
  signal: AbortSignal;
  /** Takes a frame: a whole JPEG of at most CAMERA_FRAME_BYTES_MAX in memory of its own. */
  frame: (jpeg: Uint8Array) => void;
  /** A frame was over CAMERA_FRAME_BYTES_MAX. */
  refused: () => void;
}

/** Where the frames of a camera come from. */
export interface FrameSource {
  readonly kind: CameraSource["kind"];
  /** Whether size and quality can be other than they come. */
  adjustable(): Promise<boolean>;
  /** Makes frames until the signal, or until it ends by itself. Never rejects. */
  run(run: SourceRun): Promise<SourceEnd>;
}

/** No picture for this long: the source is taken for dead. */
export const FRAME_SILENCE_MS = 20_000;
