import { randomBytes } from "node:crypto";
import type { Clock } from "@robofleet/clock";

/** So much of a second's worth may come at once after a quiet time. */
const BURST_MS = 250;
/** Slots are booked no further ahead than this; whoever is beyond is told to ask again then. */
const BOOKED_AHEAD_MS = 60_000;
/** Whoever comes a little early is let in: clocks run differently. */
const EARLY_MS = 1_000;
/** A slot is kept for so long after its time. */
const LATE_MS = 10_000;
/** Added at random to what a robot is told, so that those with neighbouring slots do not come in step. */
const JITTER_MS = 100;
const SLOT_BYTES = 9;

export interface Booking {
  retry_after_ms: number;
  /** Names the slot; absent when too many are booked. */
  slot?: string;
}

/**
 * Spreads a storm of connecting robots: over the rate, each is booked the next free slot and told when that is. Whoever
 * comes at its slot is let in, so nobody asks more than twice; slots that nobody comes for expire.
 */
export class AcceptSlots {
  readonly #clock: Pick<Clock, "monotonic" | "random">;
  readonly #interval_ms: number;
  readonly #booked_max: number;
  /** Monotonic milliseconds by slot; in the order of their times. */
  readonly #booked = new Map<string, number>();
  #next_at = -Infinity;

  /** `per_second` 0: no limit. */
  constructor(clock: Pick<Clock, "monotonic" | "random">, per_second: number) {
    this.#clock = clock;
    this.#interval_ms = per_second > 0 ? 1_000 / per_second : 0;
    this.#booked_max = Math.ceil((per_second * BOOKED_AHEAD_MS) / 1_000);
  }

  /** Slots that are booked and not yet used. */
  get booked(): number {
    return this.#booked.size;
  }

  /** Undefined: come in. `slot` is what an earlier answer booked, if the robot names one. */
  ask(slot: string | undefined): Booking | undefined {
    if (this.#interval_ms === 0) return undefined;
    const now = this.#clock.monotonic();
    this.#expire(now);
    const booked_at = slot === undefined ? undefined : this.#booked.get(slot);
    if (booked_at !== undefined && slot !== undefined) {
      if (now < booked_at - EARLY_MS) return { retry_after_ms: Math.ceil(booked_at - now), slot };
      this.#booked.delete(slot);
      return undefined;
    }
    const at = Math.max(this.#next_at, now - BURST_MS);
    if (at > now && this.#booked.size >= this.#booked_max)
      return { retry_after_ms: Math.ceil(BOOKED_AHEAD_MS * (1 + this.#clock.random())) };
    this.#next_at = at + this.#interval_ms;
    return at <= now ? undefined : this.#book(at, now);
  }

  #book(at: number, now: number): Booking {
    const slot = randomBytes(SLOT_BYTES).toString("base64url");
    this.#booked.set(slot, at);
    return { retry_after_ms: Math.ceil(at - now + this.#clock.random() * JITTER_MS), slot };
  }

  #expire(now: number): void {
    for (const [slot, at] of this.#booked) {
      if (at + LATE_MS >= now) return;
      this.#booked.delete(slot);
    }
  }
}
