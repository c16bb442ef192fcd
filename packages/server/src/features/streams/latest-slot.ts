import type { Viewer } from "./viewer.ts";

/**
 * For streams in which only the newest frame matters: one frame is being sent to the viewer and one is queued. A new frame replaces the
 * queued one. A viewer that does not read uses the memory of two frames, which it may share with other viewers.
 */
export class LatestSlot<T> {
  readonly #viewer: Viewer;
  readonly #encode: (frame: T, skipped: number) => Uint8Array | string;
  #waiting: { frame: T } | undefined;
  #skipped = 0;
  #sending = false;

  /** `encode` serializes a frame; `skipped` is the number of frames left out since the previous one. */
  constructor(viewer: Viewer, encode: (frame: T, skipped: number) => Uint8Array | string) {
    this.#viewer = viewer;
    this.#encode = encode;
  }

  offer(frame: T): void {
    if (this.#sending) {
      if (this.#waiting !== undefined) this.#skipped += 1;
      this.#waiting = { frame };
    } else this.#send(frame);
  }

  #send(frame: T): void {
    if (!this.#viewer.open) return;
    this.#sending = true;
    const skipped = this.#skipped;
    this.#skipped = 0;
    this.#viewer.ws.send(this.#encode(frame, skipped), this.#sent);
  }

  /** One callback for all frames, as a server sends some thousand frames a second. */
  readonly #sent = (error?: Error | null): void => {
    this.#sending = false;
    const next = this.#waiting;
    this.#waiting = undefined;
    // `error` is null or undefined when the frame was sent.
    if (next !== undefined && !error) this.#send(next.frame);
  };
}
