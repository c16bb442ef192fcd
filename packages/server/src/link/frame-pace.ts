import type { Clock } from "@roamfleet/clock";
import { Hold, type ReadValve } from "./read-valve.ts";

/**
 * Units a second and units that may come at once: a frame costs one unit, and JSON one more for each KiB. A link may thus
 * send 10 MiB of messages or 10,000 frames a second, an org five times as much; measured, 10,000 units take 2–5 % of a core.
 */
export const LINK_UNITS = { per_second: 10_000, burst: 32_768 } as const;
export const ORG_UNITS = { per_second: 50_000, burst: 131_072 } as const;
/** Longest time for which a link is not read; the next frame then finds what is still owed. */
const REST_MS_MAX = 1_000;
/** Orgs whose allowance is remembered; the others have a full one. */
const ORGS_MAX = 10_000;

interface Units {
  left: number;
  at: number;
}

/** What the pace of one link, or of one viewer's socket, is counted in. */
export interface Paced {
  readonly org_id: string;
  readonly valve: ReadValve;
  units: Units | undefined;
}

/**
 * Divides the processing of frames between links and between orgs by token buckets: a link that sends more, or whose org
 * does, is not read until its bucket is no longer empty. Frames that were read with the last chunk are processed, and owed.
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
    // Full ones need not be remembered.
    if (this.#orgs.size >= ORGS_MAX) this.#orgs.clear();
    this.#orgs.set(org_id, (units = { left: ORG_UNITS.burst, at: now }));
    return units;
  }
}

/** Takes units from a bucket; returns the milliseconds until it is no longer empty. */
function spend(bucket: Units, rate: { per_second: number; burst: number }, units: number, now: number): number {
  bucket.left = Math.min(rate.burst, bucket.left + ((now - bucket.at) * rate.per_second) / 1_000) - units;
  bucket.at = now;
  return bucket.left >= 0 ? 0 : (-bucket.left * 1_000) / rate.per_second;
}
