import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { writeAtomically } from "./disk/write-atomically.ts";
import metadata from "../package.json" with { type: "json" };

/** Closer than this the robot's own clock is believed: the server's time comes with the delay of the way. */
const CLOCK_OFFSET_BELIEVED_MS = 5_000;
/** The server's time is written down again once it is so much later. */
const STORE_AFTER_MS = 24 * 60 * 60 * 1_000;
/** When this version of the agent was made: it is later than that. */
const MADE_AT = Date.parse(metadata.made_at);

/**
 * The best known time on a robot whose clock may be wrong (no battery, no NTP): the server's time at the last welcome or
 * heartbeat, carried on by the monotonic clock, so that setting the robot's clock does not move it.
 */
export class RobotTime {
  readonly #clock: Clock;
  readonly #file: string | undefined;
  #server: { time: number; monotonic: number } | undefined;
  #stored: number;

  /** With a state directory the server's time is kept there, for the next start. */
  constructor(clock: Clock, state_directory?: string) {
    this.#clock = clock;
    this.#file = state_directory === undefined ? undefined : serverTimeFile(state_directory);
    this.#stored = this.#file === undefined ? 0 : readTime(this.#file);
  }

  /** Takes the server's time (milliseconds since 1970) as of this moment. */
  sync(server_time: number): void {
    this.#server = { time: server_time, monotonic: this.#clock.monotonic() };
    // An earlier time is stored at once: the server that gave the later one had a wrong clock.
    const is_near = server_time >= this.#stored && server_time < this.#stored + STORE_AFTER_MS;
    if (this.#file === undefined || is_near) return;
    this.#stored = server_time;
    try {
      writeAtomically(this.#file, new Date(server_time).toISOString());
    } catch {
      // A full disk: the next start knows an older time.
    }
  }

  /**
   * Milliseconds since 1970 that it is at least, however wrong the robot's clock is: when this program was made, or the server's time. The server's
   * counts only while the robot's clock shows a time before this program was made: a server with a clock that is ahead must not outlast a clock
   * that is right.
   */
  least(): number {
    if (this.#clock.now().getTime() >= MADE_AT) return MADE_AT;
    return Math.max(MADE_AT, this.#server === undefined ? this.#stored : this.serverTime());
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

const serverTimeFile = (state_directory: string): string => join(state_directory, "identity", "server-time");

function readTime(file: string): number {
  try {
    const time = Date.parse(readFileSync(file, "utf8"));
    return Number.isNaN(time) ? 0 : time;
  } catch {
    return 0;
  }
}
