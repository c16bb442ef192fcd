import type { Viewer } from "./viewer.ts";

/**
 * For streams in which only the newest counts: one frame is on its way to the viewer and one waits, whatever comes meanwhile takes
 * the place of the one that waits. A viewer that does not read costs two frames, and those it may share with others.
 */
export class LatestSlot<T> {
  readonly #viewer: Viewer;
  readonly #encode: (frame: T, skipped: number) => Uint8Array | string;
  #waiting: { frame: T } | undefined;
  #skipped = 0;
  #sending = false;

  /** `encode` makes what is sent; it is told how many frames were left out since the last one. */
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

  /** One for all frames: some thousand are sent a second. */
  readonly #sent = (error?: Error | null): void => {
    this.#sending = false;
    const next = this.#waiting;
    this.#waiting = undefined;
    // Null or undefined when it has left.
    if (next !== undefined && !error) this.#send(next.frame);
  };
}
