import type { Clock } from "@roamfleet/clock";
import { type FfmpegOptions, hasFfmpeg, runFfmpeg } from "./ffmpeg.ts";
import { flatJpeg, type Ycc } from "./flat-jpeg.ts";
import type { FrameSource, SourceRun } from "./frame-source.ts";
import type { Picture } from "./request.ts";

const WIDTH = 640;
const HEIGHT = 480;
const SQUARE = 8;
/** Below this width there is no room for the clock. */
const COLUMNS_MIN = 40;

/** Bars from white to blue, as on television. */
const BARS: readonly Ycc[] = [
  [235, 128, 128],
  [210, 16, 146],
  [170, 166, 16],
  [145, 54, 34],
  [106, 202, 222],
  [81, 90, 240],
  [41, 240, 110],
];
const BLACK: Ycc = [16, 128, 128];
const WHITE: Ycc = [235, 128, 128];

/** Three squares wide, five high, row by row. */
const DIGITS: Record<string, string> = {
  "0": "111101101101111",
  "1": "010110010010111",
  "2": "111001111100111",
  "3": "111001111001111",
  "4": "101101111001001",
  "5": "111100111001111",
  "6": "111100111101111",
  "7": "111001001001001",
  "8": "111101111101111",
  "9": "111101111001111",
  ":": "000010000010000",
};

/** Draws bars, the time of day (UTC) and a moving ball, so that a viewer sees that the picture is live, and its delay. */
export function drawTestPicture(at: Date, { width, height, scale }: Pick<Picture, "width" | "height" | "scale">): Uint8Array {
  const part = Math.min(1, (width ?? WIDTH) / WIDTH, (height ?? HEIGHT) / HEIGHT) * scale;
  const columns = Math.max(COLUMNS_MIN, Math.round((WIDTH / SQUARE) * part));
  const rows = Math.round((columns * HEIGHT) / WIDTH);
  const time = at.toISOString().slice(11, 19);
  const left = Math.floor((columns - time.length * 4) / 2);
  const top = rows - 8;
  const phase = (at.getTime() % 4_000) / 4_000;
  const ball_column = Math.round(2 + (columns - 5) * (phase < 0.5 ? phase * 2 : 2 - phase * 2));
  const ball_row = Math.round(rows / 2 - Math.abs(Math.sin(phase * Math.PI * 4)) * (rows / 3));
  return flatJpeg(columns, rows, (column, row) => {
    if (Math.abs(column - ball_column) <= 1 && Math.abs(row - ball_row) <= 1) return WHITE;
    if (row < top - 1) return BARS[Math.floor((column * BARS.length) / columns)]!;
    const [x, y] = [column - left, row - top];
    const digit = y >= 0 && y < 5 && x >= 0 && x % 4 < 3 ? DIGITS[time[Math.floor(x / 4)] ?? ""] : undefined;
    return digit?.[y * 3 + (x % 4)] === "1" ? WHITE : BLACK;
  });
}

/** A picture for robots without a camera: ffmpeg's own if available, otherwise the one drawn here. */
export function testPicture(options: FfmpegOptions): FrameSource {
  const { clock } = options;
  return {
    kind: "test_picture",
    adjustable: () => Promise.resolve(true),
    run: async (run) => {
      if (!(await hasFfmpeg(options))) return drawFrames(clock, run);
      const rate = Math.max(1, Math.ceil(run.picture.fps));
      return runFfmpeg(["-re", "-f", "lavfi", "-i", `testsrc2=size=${WIDTH}x${HEIGHT}:rate=${rate}`], run, options);
    },
  };
}

async function drawFrames(clock: Clock, { picture, signal, frame }: SourceRun): Promise<{ failed: false; reason: string }> {
  while (!signal.aborted) {
    frame(drawTestPicture(clock.now(), picture));
    await clock.sleep(1_000 / picture.fps, signal);
  }
  return { failed: false, reason: "no viewers" };
}
