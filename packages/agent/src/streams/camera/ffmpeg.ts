import type { ChildProcess } from "node:child_process";
import { type Clock, IdleTimeout } from "@roamfleet/clock";
import { CAMERA_FRAME_BYTES_MAX } from "@roamfleet/protocol/link";
import { spawnChild, findProgram } from "../../runtime/spawn-child.ts";
import { stopGroup } from "../../runtime/processes.ts";
import {
  FRAME_IDLE_MS,
  type FrameSource,
  isUnchanged,
  type Picture,
  QUALITY_DEFAULT,
  type SourceEnd,
  type SourceRun,
  StderrTail,
} from "./frame-source.ts";
import { JpegSplitter } from "./jpeg-splitter.ts";
import type { CameraSource } from "../../config-file/robot-config.ts";

/** Default maximum width in pixels; a client may request more. */
const WIDTH_DEFAULT = 1280;
/**
 * Minimum frame rate of ffmpeg's fps filter. The filter delays the first frame until the second one arrives, which takes long at low rates.
 * Lower rates are reached by dropping frames later.
 */
const FILTER_FPS_MIN = 5;
const STOP_GRACE_MS = 1_500;
/** Quality range of ffmpeg's JPEG encoder. A lower value is better. */
const QSCALE = { best: 2, worst: 31 } as const;

export interface FfmpegOptions {
  clock: Clock;
  /** Environment of the child; ffmpeg is searched for on its PATH. */
  environment: Readonly<Record<string, string>>;
}

const FFMPEG_MISSING: SourceEnd = { failed: true, reason: "ffmpeg is not installed on the robot", final: true };

export const hasFfmpeg = ({ environment }: Pick<FfmpegOptions, "environment">): boolean =>
  findProgram("ffmpeg", environment.PATH ?? "") !== undefined;

/** Converts a quality from 1 to 100 to the scale of the encoder. */
export const qscaleOf = (quality: number): number => Math.round(QSCALE.worst - ((quality - 1) / 99) * (QSCALE.worst - QSCALE.best));

/** Returns the filter that scales a picture. It never enlarges the camera's picture, keeps the aspect ratio, and makes both sides even. */
function scaleFilter({ width, height, scale }: Picture): string {
  const parts = [`${width ?? (height === undefined ? WIDTH_DEFAULT : 1e6)}/iw`, ...(height === undefined ? [] : [`${height}/ih`])];
  const part = parts.reduce((least, one) => `min(${least},${one})`, "1");
  const side = (name: string): string => `'max(2,2*trunc(${name}*${part}*${scale}/2))'`;
  return `scale=w=${side("iw")}:h=${side("ih")}`;
}

/** Returns ffmpeg's arguments for its output. `filters` are applied before scaling. */
function outputArguments(picture: Picture, filters: readonly string[]): string[] {
  const encoder = ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-q:v", String(qscaleOf(picture.quality ?? QUALITY_DEFAULT))];
  // Use one thread, since each further thread would delay the output by a frame.
  return ["-an", "-sn", "-vf", [...filters, scaleFilter(picture)].join(","), ...encoder, "-threads", "1", "-f", "image2pipe", "pipe:1"];
}

const QUIETLY = ["-hide_banner", "-nostdin", "-loglevel", "error"];

/** Returns ffmpeg's command line for an input that ffmpeg opens itself, such as a device. */
export const inputArguments = (input: readonly string[], picture: Picture): string[] => [
  ...QUIETLY,
  ...input,
  ...outputArguments(picture, [`fps=${Math.max(FILTER_FPS_MIN, picture.fps)}`]),
];

const FED = ["-f", "mpjpeg", "-probesize", "32", "-analyzeduration", "0", "-fflags", "nobuffer", "-threads", "1", "-i", "pipe:0"];

/**
 * Number of times that each picture is passed to ffmpeg. ffmpeg outputs a picture only after it has read the next one (measured with 5.1,
 * with any option). So each picture is passed twice, and FED_FILTERS drops every second one. The filters also set new timestamps, since
 * ffmpeg would otherwise fill gaps with repeated pictures.
 */
const FED_COPIES = 2;
const FED_FILTERS = [`select='not(mod(n,${FED_COPIES}))'`, "setpts=N/(25*TB)"];

/** Returns ffmpeg's command line for JPEGs that the agent writes to its stdin as a multipart body. */
const fedArguments = (picture: Picture): string[] => [...QUIETLY, ...FED, ...outputArguments(picture, FED_FILTERS)];

/** Starts ffmpeg. If no file descriptors are left, the child has no pipes and emits `error`. */
function start(args: readonly string[], fed: boolean, environment: Readonly<Record<string, string>>): ChildProcess {
  return spawnChild("ffmpeg", args, {
    stdio: [fed ? "pipe" : "ignore", "pipe", "pipe"],
    env: { ...environment, AV_LOG_FORCE_NOCOLOR: "1" },
    // Start a separate process group, so that ffmpeg's children can be stopped with it.
    detached: true,
  });
}

/**
 * Returns whether the input is finite: a file or a generated picture. All other inputs are live, so their end is a failure, whatever the
 * exit code is.
 */
function hasEnd(input: readonly string[]): boolean {
  const source = input[input.indexOf("-i") + 1] ?? "";
  const is_file = !/^[a-z][a-z0-9+.-]*:/i.test(source) && !source.startsWith("/dev/");
  return input.includes("lavfi") || is_file || source.startsWith("file:");
}

/**
 * Runs ffmpeg until it exits or the signal is aborted, and passes on its frames. Reads its pipe without pause: a frame that waits in the
 * pipe would be shown late.
 */
export async function runFfmpeg(input: readonly string[], run: SourceRun, options: FfmpegOptions): Promise<SourceEnd> {
  const end = await watchChild(start(inputArguments(input, run.picture), false, options.environment), run, options);
  return end.failed || hasEnd(input) || run.signal.aborted ? end : { failed: true, reason: "the camera ended its stream" };
}

/** A running ffmpeg that scales frames of another source. */
interface Feeding {
  /** Passes a frame to ffmpeg. While ffmpeg is busy, only the newest frame is kept. */
  feed: (jpeg: Uint8Array) => void;
  ended: Promise<SourceEnd>;
}

function feedFfmpeg(run: SourceRun, options: FfmpegOptions): Feeding {
  const child = start(fedArguments(run.picture), true, options.environment);
  const ended = watchChild(child, run, options);
  const { stdin } = child;
  let busy = false;
  let newest: Uint8Array | undefined;
  stdin?.on("error", () => {});
  stdin?.on("drain", () => {
    busy = false;
    const next = newest;
    newest = undefined;
    if (next !== undefined) feed(next);
  });
  const feed = (jpeg: Uint8Array): void => {
    if (busy) newest = jpeg;
    else if (stdin) {
      for (let copy = 0; copy < FED_COPIES; copy += 1) {
        stdin.write(`--frame\r\nContent-Type: image/jpeg\r\nContent-Length: ${jpeg.length}\r\n\r\n`);
        stdin.write(jpeg);
        busy = !stdin.write("\r\n");
      }
    }
  };
  return { feed, ended };
}

async function watchChild(child: ChildProcess, { signal, frame, refused }: SourceRun, { clock }: FfmpegOptions): Promise<SourceEnd> {
  const words = new StderrTail();
  const splitter = new JpegSplitter((jpeg) => {
    idle.touch();
    if (!signal.aborted) frame(jpeg);
  }, refused);
  const stop = (): void => void (child.pid !== undefined && stopGroup(child.pid, { clock, grace_ms: STOP_GRACE_MS }));
  let silent = false;
  const idle = new IdleTimeout(clock, FRAME_IDLE_MS, () => {
    silent = true;
    stop();
  });
  child.stdout?.on("data", (chunk: Buffer) => splitter.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => words.push(chunk));
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const end = await new Promise<SourceEnd>((resolve) => {
    child.once("error", ({ code }: NodeJS.ErrnoException) =>
      resolve(code === "ENOENT" ? FFMPEG_MISSING : { failed: true, reason: `ffmpeg cannot be run (${code})` }),
    );
    child.once("close", (code, killed) => resolve(endOf(code, killed, words, silent)));
  });
  idle.stop();
  signal.removeEventListener("abort", stop);
  return end;
}

function endOf(code: number | null, killed: string | null, { line }: StderrTail, silent: boolean): SourceEnd {
  if (silent)
    return { failed: true, reason: `no frame received for ${FRAME_IDLE_MS / 1_000} s${line === undefined ? "" : `; ffmpeg: ${line}`}` };
  if (code === 0) return { failed: false, reason: "the file has ended" };
  return { failed: true, reason: `ffmpeg: ${line ?? (code === null ? `ended by ${killed}` : `ended with ${code}`)}` };
}

/** Maximum bytes of a picture that is passed to ffmpeg for scaling. */
const FED_BYTES_MAX = 8 * 1024 * 1024;

interface JpegRun extends Omit<SourceRun, "picture"> {
  /** Maximum bytes of a picture; a larger one is refused. */
  bytes_max: number;
}

/** Runs a source whose frames are already JPEG: passes them on until the signal is aborted or the source ends. */
export type RunJpegs = (run: JpegRun) => Promise<SourceEnd>;

/**
 * Creates a frame source from a source of JPEGs. Passes the frames on unchanged, or through ffmpeg if the request has another size or
 * quality.
 */
export function jpegSource(kind: CameraSource["kind"], run_jpegs: RunJpegs, options: FfmpegOptions): FrameSource {
  return {
    kind,
    adjustable: () => hasFfmpeg(options),
    run: async (run) => {
      if (isUnchanged(run.picture)) return run_jpegs({ ...run, bytes_max: CAMERA_FRAME_BYTES_MAX });
      if (!hasFfmpeg(options))
        return { ...FFMPEG_MISSING, reason: "another size or quality needs ffmpeg, which is not installed on the robot" };
      return runAdjusted(run_jpegs, run, options);
    },
  };
}

/**
 * Runs a source and passes its frames to ffmpeg. When either of them ends, stops the other. Returns the result of the one that ended first.
 */
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
