import type { ChildProcess } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { spawnChild } from "../../runtime/spawn-child.ts";
import { stopGroup } from "../../runtime/stop-group.ts";
import { FRAME_SILENCE_MS, type SourceEnd, type SourceRun } from "./frame-source.ts";
import { JpegSplitter } from "./jpeg-splitter.ts";
import { StderrTail } from "./last-words.ts";
import { type Picture, QUALITY_DEFAULT } from "./request.ts";
import { IdleTimeout } from "./silence.ts";

/** Maximum width unless a client requests more. */
const WIDTH_DEFAULT = 1280;
/** Lower rates are produced by dropping frames: ffmpeg's fps filter would delay the first frame until it has the second. */
const FILTER_FPS_MIN = 5;
const STOP_GRACE_MS = 1_500;
/** Best and worst quality of the encoder. */
const QSCALE = { best: 2, worst: 31 } as const;

export interface FfmpegOptions {
  clock: Clock;
  /** Environment of the child; ffmpeg is searched for on its PATH. */
  environment: Readonly<Record<string, string>>;
}

export const FFMPEG_MISSING: SourceEnd = { failed: true, reason: "ffmpeg is not installed on the robot", final: true };

/** Whether there is an ffmpeg on the PATH. */
export async function hasFfmpeg({ environment }: Pick<FfmpegOptions, "environment">): Promise<boolean> {
  for (const directory of (environment.PATH ?? "").split(path.delimiter).filter((one) => one !== "")) {
    try {
      await access(path.join(directory, "ffmpeg"), constants.X_OK);
      return true;
    } catch {
      // Try the next directory.
    }
  }
  return false;
}

/** Converts quality from 1 to 100 to the encoder's scale. */
export const qscaleOf = (quality: number): number => Math.round(QSCALE.worst - ((quality - 1) / 99) * (QSCALE.worst - QSCALE.best));

/** Never larger than the camera's picture, with the aspect ratio kept and even sides. */
function scaleFilter({ width, height, scale }: Picture): string {
  const parts = [`${width ?? (height === undefined ? WIDTH_DEFAULT : 1e6)}/iw`, ...(height === undefined ? [] : [`${height}/ih`])];
  const part = parts.reduce((least, one) => `min(${least},${one})`, "1");
  const side = (name: string): string => `'max(2,2*trunc(${name}*${part}*${scale}/2))'`;
  return `scale=w=${side("iw")}:h=${side("ih")}`;
}

/** `filters` come before scaling. */
function outputArguments(picture: Picture, filters: readonly string[]): string[] {
  const encoder = ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-q:v", String(qscaleOf(picture.quality ?? QUALITY_DEFAULT))];
  // One thread: each further thread would delay the output by a frame.
  return ["-an", "-sn", "-vf", [...filters, scaleFilter(picture)].join(","), ...encoder, "-threads", "1", "-f", "image2pipe", "pipe:1"];
}

const QUIETLY = ["-hide_banner", "-nostdin", "-loglevel", "error"];

/** Returns ffmpeg's command line for an input that it opens. */
export const inputArguments = (input: readonly string[], picture: Picture): string[] => [
  ...QUIETLY,
  ...input,
  ...outputArguments(picture, [`fps=${Math.max(FILTER_FPS_MIN, picture.fps)}`]),
];

const FED = ["-f", "mpjpeg", "-probesize", "32", "-analyzeduration", "0", "-fflags", "nobuffer", "-threads", "1", "-i", "pipe:0"];

/**
 * ffmpeg outputs a picture only after it has read the next one (measured with 5.1, with any option). So each picture is fed twice, and every second
 * one is dropped. Without new timestamps it would fill gaps with repeats.
 */
const FED_COPIES = 2;
const FED_FILTERS = [`select='not(mod(n,${FED_COPIES}))'`, "setpts=N/(25*TB)"];

/** ffmpeg's command line for JPEGs that are fed as a multipart body. */
const fedArguments = (picture: Picture): string[] => [...QUIETLY, ...FED, ...outputArguments(picture, FED_FILTERS)];

/** Starts ffmpeg. If no file descriptors are left it has no pipes and emits an error. */
function start(args: readonly string[], fed: boolean, environment: Readonly<Record<string, string>>): ChildProcess {
  return spawnChild("ffmpeg", args, {
    stdio: [fed ? "pipe" : "ignore", "pipe", "pipe"],
    env: { ...environment, AV_LOG_FORCE_NOCOLOR: "1" },
    // A separate process group, so that its children end with it.
    detached: true,
  });
}

/** Whether the input is finite: a file or a generated picture. All others are live, and their end is a failure for any exit code. */
function hasEnd(input: readonly string[]): boolean {
  const source = input[input.indexOf("-i") + 1] ?? "";
  const is_file = !/^[a-z][a-z0-9+.-]*:/i.test(source) && !source.startsWith("/dev/");
  return input.includes("lavfi") || is_file || source.startsWith("file:");
}

/** Runs ffmpeg until it exits or the signal is aborted, and passes on its frames. Its pipe is always read: frames waiting there would be late. */
export async function runFfmpeg(input: readonly string[], run: SourceRun, options: FfmpegOptions): Promise<SourceEnd> {
  const end = await watchChild(start(inputArguments(input, run.picture), false, options.environment), run, options);
  return end.failed || hasEnd(input) || run.signal.aborted ? end : { failed: true, reason: "the camera ended its stream" };
}

/** Scales frames of another source with ffmpeg. */
export interface Feeding {
  /** Passes a frame to ffmpeg; while that is busy only the newest frame is kept. */
  feed: (jpeg: Uint8Array) => void;
  ended: Promise<SourceEnd>;
}

export function feedFfmpeg(run: SourceRun, options: FfmpegOptions): Feeding {
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
    silence.heard();
    if (!signal.aborted) frame(jpeg);
  }, refused);
  const stop = (): void => void (child.pid !== undefined && stopGroup(child.pid, { clock, grace_ms: STOP_GRACE_MS }));
  let silent = false;
  const silence = new IdleTimeout(clock, FRAME_SILENCE_MS, () => {
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
  silence.stop();
  signal.removeEventListener("abort", stop);
  return end;
}

function endOf(code: number | null, killed: string | null, { line }: StderrTail, silent: boolean): SourceEnd {
  if (silent)
    return { failed: true, reason: `no picture for ${FRAME_SILENCE_MS / 1_000} s${line === undefined ? "" : `; ffmpeg: ${line}`}` };
  if (code === 0) return { failed: false, reason: "the file has ended" };
  return { failed: true, reason: `ffmpeg: ${line ?? (code === null ? `ended by ${killed}` : `ended with ${code}`)}` };
}
