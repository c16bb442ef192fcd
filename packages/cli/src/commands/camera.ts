import { CAMERA_BOUNDS } from "@roamfleet/protocol/link/limits";
import type { Client, Stream } from "@roamfleet/sdk";
import { InvalidArgumentError } from "commander";
import { type FrameFile, openFrameFile, writeSnapshot } from "../camera/frame-file.ts";
import { FrameMeter } from "../camera/frame-meter.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes, seconds } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { eachFrame, throwEnding } from "../stream-ending.ts";
import { plain } from "../text.ts";

const WORDS = { right: "see this camera", again: "Run the command again." };
/** Maximum time that a snapshot waits for a frame. */
const SNAPSHOT_MS_MAX = 30_000;
const SHOW_MS = 500;

interface Options {
  camera?: string;
  snapshot?: string;
  save?: string;
  fps?: number;
  width?: number;
  height?: number;
  quality?: number;
  duration?: number;
}

interface Camera {
  name: string;
  kind: string;
}

const within =
  (name: keyof typeof CAMERA_BOUNDS) =>
  (text: string): number => {
    const { minimum, maximum } = CAMERA_BOUNDS[name];
    const value = (name === "fps" ? /^\d{1,3}(\.\d{1,3})?$/ : /^\d{1,5}$/).test(text) ? Number(text) : Number.NaN;
    if (!(value >= minimum && value <= maximum)) throw new InvalidArgumentError(`Expected a number from ${minimum} to ${maximum}.`);
    return value;
  };

export const camera = defineCommand<[string, Options]>(
  "List the cameras of a robot; on a terminal, also show the frame rate of one camera. With --snapshot, save one frame. With --save, save all frames until interrupted.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .option("--camera <name>", "Name of the camera (default: the robot's first camera)")
      .option("--snapshot <file>", "Write one frame as JPEG; - is stdout")
      .option("--save <file>", "Write the frames as MJPEG; .mp4, .mkv, .mov, .avi, .webm and .gif are encoded with ffmpeg; - is stdout")
      .option("--fps <number>", "Maximum frames per second", within("fps"))
      .option("--width <pixels>", "Maximum width; the aspect ratio is kept", within("width"))
      .option("--height <pixels>", "Maximum height; the aspect ratio is kept", within("height"))
      .option("--quality <number>", "JPEG quality from 1 (worst) to 100", within("quality"))
      .option("--duration <time>", "Stop after this time, such as 30s", seconds),
  async (context, robot_id, options) => {
    if (options.snapshot !== undefined && options.save !== undefined)
      throw usage("--snapshot and --save cannot be used together", "Take the snapshot with a separate command.");
    const client = await context.client();
    if (options.snapshot !== undefined) return snapshot(context, client, robot_id, options, options.snapshot);
    if (options.save !== undefined) return save(context, client, robot_id, options, options.save);
    const cameras = await listCameras(context, client, robot_id);
    if (context.structured && options.duration === undefined) return context.out.document({ cameras });
    if (!context.structured) await showList(context, cameras);
    if (cameras.length > 0 && (context.out.can_animate || options.duration !== undefined)) await watch(context, client, robot_id, options);
  },
  [
    "rf robots camera rob_…",
    "rf robots camera rob_… --camera front --snapshot front.jpg",
    "rf robots camera rob_… --save front.mp4 --fps 10 --duration 1m",
    "rf robots camera rob_… --save - | mpv -",
  ],
);

const queryOf = ({ camera, fps, width, height, quality }: Options) => ({ camera, fps, width, height, quality });

async function listCameras(context: Context, client: Client, robot_id: string): Promise<Camera[]> {
  const signal = context.interruptible();
  const stream = await client.stream("camera", { robot_id, query: { list: "true" }, signal });
  let cameras: Camera[] | undefined;
  for await (const { data, binary } of stream) if (!binary) ({ cameras } = JSON.parse(data.toString("utf8")) as { cameras: Camera[] });
  if (signal.aborted) throw signal.reason;
  throwEnding(stream, { ...WORDS, nothing_printed: true });
  return cameras ?? [];
}

async function showList({ out }: Context, cameras: readonly Camera[]): Promise<void> {
  if (cameras.length === 0) out.note("This robot has no cameras. Configure them on the robot: `cameras` in /etc/roamfleet/agent.yaml.");
  else
    await out.table(cameras, [
      { title: "CAMERA", value: ({ name }) => name },
      { title: "SOURCE", value: ({ kind }) => kind },
    ]);
}

async function snapshot(context: Context, client: Client, robot_id: string, options: Options, file: string): Promise<void> {
  let found: Buffer | undefined;
  const late = new Failure(EXIT.error, `no frame received within ${SNAPSHOT_MS_MAX / 1_000} s`);
  await eachJpeg(context, client, robot_id, options, { ms: SNAPSHOT_MS_MAX, failure: late }, (jpeg) => {
    found = jpeg;
    return false;
  });
  if (found === undefined) return;
  await writeSnapshot(file, found, context.clock);
  await report(context, file, { file, frames: 1, bytes: found.length }, `${file}: ${bytes(found.length)}`);
}

async function save(context: Context, client: Client, robot_id: string, options: Options, file: string): Promise<void> {
  const meter = new FrameMeter();
  let target: FrameFile | undefined;
  const shown = animate(context, meter);
  const ending = { ms: durationMs(options), failure: undefined };
  try {
    await eachJpeg(context, client, robot_id, options, ending, async (jpeg) => {
      target ??= await openFrameFile(file);
      await target.write(jpeg);
      meter.take(jpeg, context.clock.monotonic());
      return true;
    });
  } finally {
    shown.stop();
    await target?.end();
    const { frames, total_bytes } = meter;
    if (frames > 0)
      await report(context, file, { file, frames, bytes: total_bytes }, `${file}: ${frames} frames, ${bytes(total_bytes)} received`);
  }
}

/** Reports the saved file: as a document on stdout, or as a note on stderr if the output is for people or stdout contains the frames. */
async function report(
  { out, structured }: Context,
  file: string,
  result: { file: string; frames: number; bytes: number },
  words: string,
): Promise<void> {
  if (structured && file !== "-") await out.document({ data: result });
  else out.note(plain(words));
}

async function watch(context: Context, client: Client, robot_id: string, options: Options): Promise<void> {
  const meter = new FrameMeter();
  const shown = animate(context, meter);
  try {
    await eachJpeg(context, client, robot_id, options, { ms: durationMs(options), failure: undefined }, (jpeg) => {
      meter.take(jpeg, context.clock.monotonic());
      return true;
    });
  } finally {
    shown.stop();
    if (meter.frames > 0) {
      if (context.structured) await context.out.document({ data: meter.result() });
      else context.out.note(plain(meter.words()));
    }
  }
}

const durationMs = ({ duration }: Options): number | undefined => (duration === undefined ? undefined : duration * 1_000);

/**
 * Shows the meter in a status line on stderr until `stop` is called. Does nothing if stderr is not a terminal or the output is structured.
 */
function animate({ out, clock }: Context, meter: FrameMeter): { stop(): void } {
  if (!out.can_animate) return { stop: () => {} };
  const timer = clock.every(SHOW_MS, () => out.live(plain(meter.now(clock.monotonic()))));
  return {
    stop: () => {
      timer.cancel();
      out.live("");
    },
  };
}

/**
 * Passes frames to `take` until it returns false, `ms` milliseconds have passed, or the stream ends. Throws `failure`, if given, when the
 * time has passed.
 */
async function eachJpeg(
  context: Context,
  client: Client,
  robot_id: string,
  options: Options,
  { ms, failure }: { ms: number | undefined; failure: Failure | undefined },
  take: (jpeg: Buffer) => boolean | Promise<boolean>,
): Promise<void> {
  const over = new AbortController();
  let timer: { cancel(): void } | undefined;
  const open = async (signal: AbortSignal): Promise<Stream> => {
    const stream = await client.stream("camera", { robot_id, query: queryOf(options), signal });
    if (ms !== undefined) timer = context.clock.setTimer(ms, () => over.abort());
    return stream;
  };
  try {
    await eachFrame(context, open, WORDS, ({ data, binary }) => !binary || take(data), over.signal);
  } finally {
    timer?.cancel();
  }
  if (over.signal.aborted && failure !== undefined) throw failure;
}
