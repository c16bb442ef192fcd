import { bytes } from "../duration.ts";

/** The frame rate is averaged over this time. */
const WINDOW_MS = 3_000;

/** Counts frames and measures their rate and size. */
export class FrameMeter {
  frames = 0;
  total_bytes = 0;
  #first_at: number | undefined;
  #last_at = 0;
  #size: { width: number; height: number } | undefined;
  #recent: { at: number; bytes: number }[] = [];

  take(jpeg: Buffer, at: number): void {
    this.frames += 1;
    this.total_bytes += jpeg.length;
    this.#first_at ??= at;
    this.#last_at = at;
    this.#size = jpegSize(jpeg) ?? this.#size;
    this.#recent.push({ at, bytes: jpeg.length });
    this.#forget(at);
  }

  /** Returns the recent rate and frame size, for a status line that is overwritten. */
  now(at: number): string {
    this.#forget(at);
    const first = this.#recent[0];
    if (first === undefined) return this.frames === 0 ? "waiting for the first frame" : "no frames received recently";
    const elapsed = Math.max(1, at - first.at) / 1_000;
    const carried = this.#recent.reduce((sum, one) => sum + one.bytes, 0);
    return [
      this.#dimensions,
      `${(this.#recent.length / Math.max(elapsed, 0.5)).toFixed(1)} frames/s`,
      `${bytes(Math.round(carried / this.#recent.length))} each`,
      `${this.frames} frames`,
    ].join("  ");
  }

  /** Totals over all frames; `fps` is null for fewer than two frames. */
  result(): { frames: number; bytes: number; width: number | null; height: number | null; fps: number | null } {
    const elapsed = this.#first_at === undefined ? 0 : (this.#last_at - this.#first_at) / 1_000;
    return {
      frames: this.frames,
      bytes: this.total_bytes,
      width: this.#size?.width ?? null,
      height: this.#size?.height ?? null,
      fps: elapsed === 0 ? null : Math.round(((this.frames - 1) / elapsed) * 100) / 100,
    };
  }

  words(): string {
    const { fps } = this.result();
    if (this.frames === 0) return "No frames received.";
    const each = bytes(Math.round(this.total_bytes / this.frames));
    return `${this.frames} frames of ${this.#dimensions}, ${each} each${fps === null ? "" : `, ${fps} frames/s`}`;
  }

  get #dimensions(): string {
    return this.#size === undefined ? "unknown size" : `${this.#size.width}×${this.#size.height}`;
  }

  #forget(at: number): void {
    while (this.#recent.length > 0 && at - this.#recent[0]!.at > WINDOW_MS) this.#recent.shift();
  }
}

/** Returns width and height of a JPEG in pixels; undefined if the headers do not contain them. */
export function jpegSize(jpeg: Buffer): { width: number; height: number } | undefined {
  if (jpeg[0] !== 0xff || jpeg[1] !== 0xd8) return undefined;
  for (let at = 2; at + 9 < jpeg.length;) {
    if (jpeg[at] !== 0xff) return undefined;
    const code = jpeg[at + 1]!;
    if (code === 0xff) {
      at += 1;
      continue;
    }
    // The frame headers SOF0 to SOF15 contain the size. The codes of DHT, JPG and DAC are in the same range.
    if (code >= 0xc0 && code <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(code))
      return { height: jpeg.readUInt16BE(at + 5), width: jpeg.readUInt16BE(at + 7) };
    at += 2 + jpeg.readUInt16BE(at + 2);
  }
  return undefined;
}
