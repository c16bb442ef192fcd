/** Time window of the rates. */
const WINDOW_MS = 3_000;
const TIMES_MAX = 200;

export interface FrameFigures {
  /** Received frames per second. */
  rate: number;
  /** Size of the latest frame. */
  width: number;
  height: number;
  bytes: number;
  /** Since the stream opened: received frames, and frames dropped by this page because an older one was still being decoded. */
  frames: number;
  left_out: number;
  /** Frames that are not valid images. */
  broken: number;
  /** Arrival of the latest frame, by performance.now(). */
  newest_at: number | undefined;
}

/** Draws the latest frame only: a frame that arrives during decoding replaces the waiting one. */
export function createFramePainter(canvas: HTMLCanvasElement) {
  const context = canvas.getContext("2d");
  let figures: FrameFigures = { rate: 0, width: 0, height: 0, bytes: 0, frames: 0, left_out: 0, broken: 0, newest_at: undefined };
  let times: number[] = [];
  let waiting: ArrayBuffer | undefined;
  let newest: Blob | undefined;
  let [is_decoding, is_over] = [false, false];

  const draw = async (jpeg: ArrayBuffer): Promise<void> => {
    const blob = new Blob([jpeg], { type: "image/jpeg" });
    // The browser decodes in another thread.
    const bitmap = await createImageBitmap(blob);
    try {
      if (is_over || context === null) return;
      if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
      }
      context.drawImage(bitmap, 0, 0);
      newest = blob;
      figures = { ...figures, width: bitmap.width, height: bitmap.height, bytes: jpeg.byteLength };
    } finally {
      bitmap.close();
    }
  };
  const drawWaiting = async (): Promise<void> => {
    is_decoding = true;
    while (waiting !== undefined && !is_over) {
      const jpeg = waiting;
      waiting = undefined;
      await draw(jpeg).catch(() => (figures = { ...figures, broken: figures.broken + 1 }));
    }
    is_decoding = false;
  };

  return {
    take(jpeg: ArrayBuffer): void {
      const now = performance.now();
      times = [...times.slice(-TIMES_MAX), now];
      figures = { ...figures, frames: figures.frames + 1, left_out: figures.left_out + (waiting === undefined ? 0 : 1), newest_at: now };
      waiting = jpeg;
      if (!is_decoding) void drawWaiting();
    },
    /** Returns the current figures. */
    read(): FrameFigures {
      const now = performance.now();
      times = times.filter((at) => now - at < WINDOW_MS);
      const span = Math.min(WINDOW_MS, now - (times[0] ?? now));
      return { ...figures, rate: span < 200 ? 0 : (times.length * 1_000) / span };
    },
    /** Returns the latest frame as received. */
    picture: (): Blob | undefined => newest,
    end(): void {
      is_over = true;
      waiting = undefined;
    },
  };
}

export type FramePainter = ReturnType<typeof createFramePainter>;
