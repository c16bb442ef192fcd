import type { Clock } from "@robofleet/clock";

/** Closer than this the robot's own clock is believed: the server's time comes with the delay of the way. */
const CLOCK_OFFSET_BELIEVED_MS = 5_000;

/**
 * The best known time on a robot whose clock may be wrong (no battery, no NTP): the server's time at the last welcome or
 * heartbeat, carried on by the monotonic clock, so that setting the robot's clock does not move it.
 */
export class RobotTime {
  readonly #clock: Clock;
  #server: { time: number; monotonic: number } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes the server's time (milliseconds since 1970) as of this moment. */
  sync(server_time: number): void {
    this.#server = { time: server_time, monotonic: this.#clock.monotonic() };
  }

  /** Milliseconds since 1970 by the server's clock: base of signed requests. The robot's own before the first welcome. */
  serverTime(): number {
    if (this.#server === undefined) return this.#clock.now().getTime();
    return Math.round(this.#server.time + this.#clock.monotonic() - this.#server.monotonic);
  }

  /** Robot's clock minus the server's in milliseconds; undefined before the first welcome. */
  offset(): number | undefined {
    return this.#server === undefined ? undefined : this.#clock.now().getTime() - this.serverTime();
  }

  /** The time to put on records: the robot's own unless it is known to be wrong. */
  now(): Date {
    const offset = this.offset();
    return offset === undefined || Math.abs(offset) < CLOCK_OFFSET_BELIEVED_MS ? this.#clock.now() : new Date(this.serverTime());
  }
}
