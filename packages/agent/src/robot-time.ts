import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { writeAtomically } from "./disk/write-atomically.ts";
import metadata from "../package.json" with { type: "json" };

/**
 * Maximum difference from the server's time at which the robot's own clock is used. Smaller differences may be caused by network delay.
 */
const CLOCK_OFFSET_BELIEVED_MS = 5_000;
/** The server's time is stored on disk again when it is later than the stored time by this much. */
const STORE_AFTER_MS = 24 * 60 * 60 * 1_000;
/** Build time of this version of the agent. The current time cannot be earlier. */
const MADE_AT = Date.parse(metadata.made_at);

/**
 * Estimates the current time on a robot whose clock may be wrong (no battery, no NTP). Takes the server's time from the last welcome or
 * heartbeat and advances it by the monotonic clock. So setting the robot's clock does not change the estimate.
 */
export class RobotTime {
  readonly #clock: Clock;
  readonly #file: string | undefined;
  #server: { time: number; monotonic: number } | undefined;
  #stored: number;

  /** `state_directory` is where the server's time is stored, to be read at the next start. If absent, it is not stored. */
  constructor(clock: Clock, state_directory?: string) {
    this.#clock = clock;
    this.#file = state_directory === undefined ? undefined : join(state_directory, "identity", "server-time");
    this.#stored = this.#file === undefined ? 0 : readTime(this.#file);
  }

  /** Sets the server's current time (milliseconds since 1970). */
  sync(server_time: number): void {
    this.#server = { time: server_time, monotonic: this.#clock.monotonic() };
    // If the server's time is before the stored time, the stored time came from a server with a wrong clock. In that case, store the new
    // time immediately.
    const is_near = server_time >= this.#stored && server_time < this.#stored + STORE_AFTER_MS;
    if (this.#file === undefined || is_near) return;
    this.#stored = server_time;
    try {
      writeAtomically(this.#file, new Date(server_time).toISOString());
    } catch {
      // The time could not be stored, for example on a full disk. The next start then uses an older time.
    }
  }

  /**
   * Returns a lower bound of the current time, in milliseconds since 1970: the build time of this program, or the server's time if that is
   * later. The server's time is used only while the robot's clock is before the build time. A wrong time from a server thus has no lasting
   * effect on a robot with a correct clock.
   */
  least(): number {
    if (this.#clock.now().getTime() >= MADE_AT) return MADE_AT;
    return Math.max(MADE_AT, this.#server === undefined ? this.#stored : this.serverTime());
  }

  /** Returns the server's time in milliseconds since 1970, for signed requests. Before the first welcome, returns the robot's own time. */
  serverTime(): number {
    if (this.#server === undefined) return this.#clock.now().getTime();
    return Math.round(this.#server.time + this.#clock.monotonic() - this.#server.monotonic);
  }

  /** Returns the robot's clock minus the server's in milliseconds; undefined before the first welcome. */
  offset(): number | undefined {
    return this.#server === undefined ? undefined : this.#clock.now().getTime() - this.serverTime();
  }

  /** Returns the time for records: the robot's own clock unless it is known to be wrong. */
  now(): Date {
    const offset = this.offset();
    return offset === undefined || Math.abs(offset) < CLOCK_OFFSET_BELIEVED_MS ? this.#clock.now() : new Date(this.serverTime());
  }
}

function readTime(file: string): number {
  try {
    const time = Date.parse(readFileSync(file, "utf8"));
    return Number.isNaN(time) ? 0 : time;
  } catch {
    return 0;
  }
}
