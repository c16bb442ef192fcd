/** What a sender may have on its way in one channel before the receiver has dealt with it. */
export const CHANNEL_WINDOW_BYTES = 256 * 1024;
/** Credit is given back in portions of this size: fewer frames, and the sender never runs dry. */
const GRANT_BYTES = CHANNEL_WINDOW_BYTES / 4;

/** The receiver's side of a channel's credit: what arrived, and what of it has been dealt with. */
export class ReceiveWindow {
  #unconsumed = 0;
  #owed = 0;

  /** Counts what arrived; false when the sender had no credit for it. */
  arrived(bytes: number): boolean {
    this.#unconsumed += bytes;
    return this.#unconsumed <= CHANNEL_WINDOW_BYTES;
  }

  /** Counts what has been dealt with; answers the credit to give now, 0 for none yet. */
  consumed(bytes: number): number {
    this.#owed += bytes;
    if (this.#owed < GRANT_BYTES) return 0;
    const grant = this.#owed;
    this.#owed = 0;
    // Only what was given back may come again: what is owed still counts against the sender, as it does at its end.
    this.#unconsumed -= grant;
    return grant;
  }
}
