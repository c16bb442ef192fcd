import type { Clock } from "@roamfleet/clock";
import { type FfmpegOptions, hasFfmpeg, runFfmpeg } from "./ffmpeg.ts";
import type { FrameSource, Picture, SourceRun } from "./frame-source.ts";

const WIDTH = 640;
const HEIGHT = 480;
const SQUARE = 8;
/** Minimum width of the picture in squares. A narrower picture has no room for the clock. */
const COLUMNS_MIN = 40;

/** Colors of the vertical bars, from white to blue, as in a television test picture. */
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

/** The shape of each digit, row by row: three squares wide and five high. */
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
function drawTestPicture(at: Date, { width, height, scale }: Pick<Picture, "width" | "height" | "scale">): Uint8Array {
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

/**
 * Creates a test picture for robots without a camera. It comes from ffmpeg if that is available, and is drawn here otherwise.
 */
export function testPicture(options: FfmpegOptions): FrameSource {
  const { clock } = options;
  return {
    kind: "test_picture",
    adjustable: () => true,
    run: async (run) => {
      if (!hasFfmpeg(options)) return drawFrames(clock, run);
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

/** A color in JPEG's form: luminance and the two color differences, each 0 to 255. */
type Ycc = readonly [number, number, number];

const BLOCK = 8;
/**
 * Huffman codes of the JPEG standard for the size of a DC difference. This is the number of codes of each length; the values
 * follow.
 */
const DC_COUNTS = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
const DC_SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/** Huffman table for AC coefficients. It has a single code of one bit, since the pictures have no such coefficients. */
const AC_COUNTS = [1, ...Array.from({ length: 15 }, () => 0)];
/** Quantization step with which the DC value of a flat block equals its color. */
const DC_STEP = 8;

/** Huffman code of each size, derived from the counts as in the standard. */
const DC_CODES = ((): { code: number; length: number }[] => {
  const codes: { code: number; length: number }[] = [];
  let code = 0;
  DC_COUNTS.forEach((count, index) => {
    for (let i = 0; i < count; i += 1) codes.push({ code: code++, length: index + 1 });
    code <<= 1;
  });
  return codes;
})();

const segment = (marker: number, payload: readonly number[]): number[] => [
  0xff,
  marker,
  (payload.length + 2) >> 8,
  (payload.length + 2) & 0xff,
  ...payload,
];
const pair = (value: number): number[] => [value >> 8, value & 0xff];

function headOf(columns: number, rows: number): number[] {
  const components = [1, 2, 3];
  return [
    0xff,
    0xd8,
    ...segment(0xe0, [...Buffer.from("JFIF\0"), 1, 1, 0, 0, 1, 0, 1, 0, 0]),
    ...segment(0xdb, [0, DC_STEP, ...Array.from({ length: 63 }, () => 1)]),
    ...segment(0xc0, [8, ...pair(rows * BLOCK), ...pair(columns * BLOCK), 3, ...components.flatMap((id) => [id, 0x11, 0])]),
    ...segment(0xc4, [0x00, ...DC_COUNTS, ...DC_SIZES]),
    ...segment(0xc4, [0x10, ...AC_COUNTS, 0]),
    ...segment(0xda, [3, ...components.flatMap((id) => [id, 0x00]), 0, 63, 0]),
  ];
}

/**
 * Encodes a baseline JPEG of squares of 8 × 8 pixels with one color each, which needs no cosine transform. 80 × 60 squares
 * take about 6 KB.
 */
function flatJpeg(columns: number, rows: number, color: (column: number, row: number) => Ycc): Uint8Array {
  const bytes = headOf(columns, rows);
  let bits = 0;
  let count = 0;
  const put = (code: number, length: number): void => {
    bits = (bits << length) | code;
    count += length;
    while (count >= 8) {
      const byte = (bits >> (count - 8)) & 0xff;
      bytes.push(byte);
      if (byte === 0xff) bytes.push(0);
      count -= 8;
    }
    bits &= (1 << count) - 1;
  };
  const before = [128, 128, 128];
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1)
      color(column, row).forEach((value, component) => {
        const difference = value - before[component]!;
        before[component] = value;
        const size = 32 - Math.clz32(Math.abs(difference));
        const { code, length } = DC_CODES[size]!;
        put(code, length);
        if (size > 0) put(difference > 0 ? difference : difference + (1 << size) - 1, size);
        put(0, 1);
      });
  if (count > 0) put((1 << (8 - count)) - 1, 8 - count);
  bytes.push(0xff, 0xd9);
  return Uint8Array.from(bytes);
}
