import type { Clock, Timer } from "@roamfleet/clock";
import { type Channel, dataMessage } from "@roamfleet/protocol/link";
import type { Carried } from "./pace.ts";

/** Part of an interval by which a frame may come early: sources are not exact. */
const EARLY = 0.3;
/** A frame that has waited for so long tells of the line before it has left. */
const TELL_BLOCKED_MS = 5_000;

/** Sends one channel the newest frame each time that the line has taken the one before, and no more often than it is told. */
export class CameraOutput {
  readonly channel: Channel;
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Milliseconds from one frame to the next. */
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

  /** Takes the place of a frame that has not been sent. */
  offer(jpeg: Uint8Array): void {
    this.#newest = jpeg;
    this.#sendWhenDue();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#newest = undefined;
  }

  /** What the line did since this was asked last; undefined while that is not known yet. */
  carried(): Carried | undefined {
    const now = this.#clock.monotonic();
    if (this.#sending_since !== undefined) {
      const waited = now - this.#sending_since;
      if (this.#frames === 0 && waited < TELL_BLOCKED_MS) return undefined;
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
    // A source that pauses is not made up for.
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
