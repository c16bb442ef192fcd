import type { Clock } from "@roamfleet/clock";
import { Hold, type ReadValve } from "./read-valve.ts";

/**
 * Rates in units per second, and bursts. A frame costs one unit, and one more per KiB of JSON or of a frame that belongs to no open channel.
 * So a robot may send 10 MiB of messages or 10,000 frames a second, an org five times as much. Measured, 10,000 units take 2–5% of a core.
 */
export const LINK_UNITS = { per_second: 10_000, burst: 32_768 } as const;
export const ORG_UNITS = { per_second: 50_000, burst: 131_072 } as const;
/** Cost of a link: a robot may open 20 a second. Admitting one takes 4 ms of CPU and two transactions. */
export const LINK_OPEN_UNITS = 500;
/** Longest pause of a link. If it still has debt then, the next frame pauses it again. */
const REST_MS_MAX = 1_000;
/** Buckets kept before full ones are removed for the first time. */
const SWEEP_SIZE_MIN = 10_000;

interface Rate {
  per_second: number;
  burst: number;
}

interface Units {
  left: number;
  at: number;
}

/** A robot's link or a viewer's socket. */
export interface Paced {
  readonly org_id: string;
  /** Present for links: a robot keeps its debt when it reconnects. */
  readonly robot_id?: string;
  readonly valve: ReadValve;
  /** Token bucket of the robot or the viewer's socket. */
  units: Units | undefined;
}

/**
 * Limits the frame rate of each robot, viewer and org with token buckets. A socket is not read while its bucket or its org's is in debt.
 * Frames that arrived with the last chunk are still processed and added to the debt.
 */
export class FramePace {
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  readonly #orgs = new Buckets(ORG_UNITS);
  readonly #robots = new Buckets(LINK_UNITS);

  constructor(clock: Pick<Clock, "monotonic" | "setTimer">) {
    this.#clock = clock;
  }

  /** Charges a robot for a new link. If the robot is in debt, charges nothing and returns the milliseconds until it may open one. */
  open(robot_id: string): number {
    const now = this.#clock.monotonic();
    const bucket = this.#robots.get(robot_id, now);
    const owed_ms = spend(bucket, LINK_UNITS, 0, now);
    if (owed_ms === 0) spend(bucket, LINK_UNITS, LINK_OPEN_UNITS, now);
    return owed_ms;
  }

  take(link: Paced, units: number): void {
    const now = this.#clock.monotonic();
    link.units ??= link.robot_id === undefined ? { left: LINK_UNITS.burst, at: now } : this.#robots.get(link.robot_id, now);
    const owed_ms = Math.max(spend(link.units, LINK_UNITS, units, now), spend(this.#orgs.get(link.org_id, now), ORG_UNITS, units, now));
    if (owed_ms <= 0 || link.valve.holds(Hold.pace)) return;
    link.valve.hold(Hold.pace);
    this.#clock.setTimer(Math.min(REST_MS_MAX, owed_ms), () => link.valve.release(Hold.pace));
  }
}

/** Token buckets by id. An absent bucket is a full one, so those that are full again are removed whenever the number has doubled. */
class Buckets {
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Units>();
  #sweep_size = SWEEP_SIZE_MIN;

  constructor(rate: Rate) {
    this.#rate = rate;
  }

  get(id: string, now: number): Units {
    const known = this.#buckets.get(id);
    if (known !== undefined) return known;
    if (this.#buckets.size >= this.#sweep_size) this.#sweep(now);
    const full = { left: this.#rate.burst, at: now };
    this.#buckets.set(id, full);
    return full;
  }

  #sweep(now: number): void {
    for (const [id, { left, at }] of this.#buckets)
      if (left + ((now - at) * this.#rate.per_second) / 1_000 >= this.#rate.burst) this.#buckets.delete(id);
    this.#sweep_size = Math.max(SWEEP_SIZE_MIN, 2 * this.#buckets.size);
  }
}

/** Takes units from a bucket. Returns the milliseconds until it is no longer negative. */
function spend(bucket: Units, rate: Rate, units: number, now: number): number {
  bucket.left = Math.min(rate.burst, bucket.left + ((now - bucket.at) * rate.per_second) / 1_000) - units;
  bucket.at = now;
  return bucket.left >= 0 ? 0 : (-bucket.left * 1_000) / rate.per_second;
}
