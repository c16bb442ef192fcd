import type { Clock } from "@roamfleet/clock";
import { Hold, type ReadValve } from "./read-valve.ts";

/**
 * Rates in units per second, and bursts. A frame costs one unit, and JSON one more per KiB. So a link may send 10 MiB of messages or 10,000
 * frames a second, an org five times as much. Measured, 10,000 units take 2–5% of a core.
 */
export const LINK_UNITS = { per_second: 10_000, burst: 32_768 } as const;
export const ORG_UNITS = { per_second: 50_000, burst: 131_072 } as const;
/** Longest pause of a link. If it still has debt then, the next frame pauses it again. */
const REST_MS_MAX = 1_000;
/** Orgs with a bucket. The others have a full one. */
const ORGS_MAX = 10_000;

interface Units {
  left: number;
  at: number;
}

/** A link or a viewer's socket, with its token bucket. */
export interface Paced {
  readonly org_id: string;
  readonly valve: ReadValve;
  units: Units | undefined;
}

/**
 * Limits the frame rate of each link and each org with token buckets. A link is not read while its bucket or its org's is in debt. Frames
 * that arrived with the last chunk are still processed and added to the debt.
 */
export class FramePace {
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  readonly #orgs = new Map<string, Units>();

  constructor(clock: Pick<Clock, "monotonic" | "setTimer">) {
    this.#clock = clock;
  }

  take(link: Paced, units: number): void {
    const now = this.#clock.monotonic();
    link.units ??= { left: LINK_UNITS.burst, at: now };
    const owed_ms = Math.max(spend(link.units, LINK_UNITS, units, now), spend(this.#orgUnits(link.org_id, now), ORG_UNITS, units, now));
    if (owed_ms <= 0 || link.valve.holds(Hold.pace)) return;
    link.valve.hold(Hold.pace);
    this.#clock.setTimer(Math.min(REST_MS_MAX, owed_ms), () => link.valve.release(Hold.pace));
  }

  #orgUnits(org_id: string, now: number): Units {
    let units = this.#orgs.get(org_id);
    if (units !== undefined) return units;
    // Most buckets are full by then and need not be kept.
    if (this.#orgs.size >= ORGS_MAX) this.#orgs.clear();
    this.#orgs.set(org_id, (units = { left: ORG_UNITS.burst, at: now }));
    return units;
  }
}

/** Takes units from a bucket. Returns the milliseconds until it is no longer negative. */
function spend(bucket: Units, rate: { per_second: number; burst: number }, units: number, now: number): number {
  bucket.left = Math.min(rate.burst, bucket.left + ((now - bucket.at) * rate.per_second) / 1_000) - units;
  bucket.at = now;
  return bucket.left >= 0 ? 0 : (-bucket.left * 1_000) / rate.per_second;
}
