import type { CameraSource } from "../../config-file/robot-config.ts";
import { CAMERA_FRAME_BYTES_MAX } from "@roamfleet/protocol/link";
import { feedFfmpeg, type FfmpegOptions, FFMPEG_MISSING, hasFfmpeg } from "./ffmpeg.ts";
import type { FrameSource, SourceEnd, SourceRun } from "./frame-source.ts";
import { isUnchanged } from "./request.ts";

/** Largest picture that is scaled. */
const FED_BYTES_MAX = 8 * 1024 * 1024;

export interface JpegRun extends Omit<SourceRun, "picture"> {
  /** A larger picture is refused. */
  bytes_max: number;
}

/** Runs a source whose frames are already JPEG: passes them on until the signal is aborted or the source ends. */
export type RunJpegs = (run: JpegRun) => Promise<SourceEnd>;

/** A source of JPEGs: passed on unchanged, or through ffmpeg if another size or quality is requested. */
export function jpegSource(kind: CameraSource["kind"], run_jpegs: RunJpegs, options: FfmpegOptions): FrameSource {
  return {
    kind,
    adjustable: () => hasFfmpeg(options),
    run: async (run) => {
      if (isUnchanged(run.picture)) return run_jpegs({ ...run, bytes_max: CAMERA_FRAME_BYTES_MAX });
      if (!(await hasFfmpeg(options)))
        return { ...FFMPEG_MISSING, reason: "another size or quality needs ffmpeg, which is not installed on the robot" };
      return runAdjusted(run_jpegs, run, options);
    },
  };
}

/** The source and ffmpeg end together; the reason is that of the first one to end. */
async function runAdjusted(run_jpegs: RunJpegs, run: SourceRun, options: FfmpegOptions): Promise<SourceEnd> {
  const ending = new AbortController();
  const signal = AbortSignal.any([run.signal, ending.signal]);
  const { feed, ended } = feedFfmpeg({ ...run, signal }, options);
  const source = run_jpegs({ signal, frame: feed, refused: run.refused, bytes_max: FED_BYTES_MAX });
  const first = await Promise.race([source, ended]);
  ending.abort();
  await Promise.all([source, ended]);
  return first;
}
