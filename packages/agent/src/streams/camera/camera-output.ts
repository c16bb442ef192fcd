import type { Clock, Timer } from "@roamfleet/clock";
import { type Channel, dataMessage } from "@roamfleet/protocol/link";
import type { Carried } from "./pace.ts";

/** Fraction of the interval by which a frame may be early: sources have jitter. */
const EARLY = 0.3;
/** A frame that has waited for so long is reported as blocked before it was sent. */
const REPORT_BLOCKED_MS = 5_000;

/** Sends the newest frame to one channel each time the previous one has been sent, but not above the given rate. */
export class CameraOutput {
  readonly channel: Channel;
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Milliseconds between two frames. */
  #interval_ms: number;
  #newest: Uint8Array | undefined;
  #due_at: number;
  #timer: Timer | undefined;
  #sending_since: number | undefined;
  #since: number;
  #blocked_ms = 0;
  #bytes = 0;
  #frames = 0;

  constructor(channel: Channel, clock: Pick<Clock, "monotonic" | "setTimer">, fps: number) {
    this.channel = channel;
    this.#clock = clock;
    this.#interval_ms = 1_000 / fps;
    this.#since = clock.monotonic();
    this.#due_at = this.#since;
  }

  set fps(fps: number) {
    this.#interval_ms = 1_000 / fps;
  }

  /** Replaces a frame that has not been sent yet. */
  offer(jpeg: Uint8Array): void {
    this.#newest = jpeg;
    this.#sendWhenDue();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#newest = undefined;
  }

  /** Returns what was sent since the last call; undefined while that is unknown. */
  carried(): Carried | undefined {
    const now = this.#clock.monotonic();
    if (this.#sending_since !== undefined) {
      const waited = now - this.#sending_since;
      if (this.#frames === 0 && waited < REPORT_BLOCKED_MS) return undefined;
      this.#blocked_ms += waited;
      this.#sending_since = now;
    }
    const carried = { elapsed_ms: now - this.#since, blocked_ms: this.#blocked_ms, bytes: this.#bytes, frames: this.#frames };
    this.#since = now;
    this.#blocked_ms = this.#bytes = this.#frames = 0;
    return carried;
  }

  #sendWhenDue(): void {
    if (this.#sending_since !== undefined || this.#timer !== undefined) return;
    const now = this.#clock.monotonic();
    const wait = this.#due_at - this.#interval_ms * EARLY - now;
    if (wait <= 0) return void this.#send(now);
    this.#timer = this.#clock.setTimer(wait, () => {
      this.#timer = undefined;
      void this.#send(this.#clock.monotonic());
    });
  }

  async #send(now: number): Promise<void> {
    const jpeg = this.#newest;
    if (jpeg === undefined) return;
    this.#newest = undefined;
    // A pause of the source is not compensated by a higher rate.
    this.#due_at = Math.max(this.#due_at, now - this.#interval_ms) + this.#interval_ms;
    this.#sending_since = now;
    const sent = (await this.channel.write(dataMessage(jpeg))) && (await this.channel.drained());
    this.#blocked_ms += this.#clock.monotonic() - this.#sending_since;
    this.#sending_since = undefined;
    if (!sent) return;
    this.#bytes += jpeg.length;
    this.#frames += 1;
    if (this.#newest !== undefined) this.#sendWhenDue();
  }
}
