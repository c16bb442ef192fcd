/** Maximum bytes in flight in one channel before the receiver has consumed them. */
export const CHANNEL_WINDOW_BYTES = 256 * 1024;
/** Credit is granted in portions of this size: fewer frames, and the sender never runs out. */
const GRANT_BYTES = CHANNEL_WINDOW_BYTES / 4;

/** The receiver's side of a channel's credit: received and consumed bytes. */
export class ReceiveWindow {
  #unconsumed = 0;
  #owed = 0;

  /** Counts received bytes; returns false if the sender had no credit for them. */
  arrived(bytes: number): boolean {
    this.#unconsumed += bytes;
    return this.#unconsumed <= CHANNEL_WINDOW_BYTES;
  }

  /** Counts consumed bytes; returns the credit to grant now, or 0. */
  consumed(bytes: number): number {
    this.#owed += bytes;
    if (this.#owed < GRANT_BYTES) return 0;
    const grant = this.#owed;
    this.#owed = 0;
    // Only granted credit may be used again: credit still owed counts against the sender, as it does at the sender.
    this.#unconsumed -= grant;
    return grant;
  }
}
