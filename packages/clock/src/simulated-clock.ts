import { type Clock, repeat, sleepOn, type Timer, trackActivity, type TrackedActivity } from "./clock.ts";

interface Due {
  at: number;
  order: number;
  work: () => unknown;
}

/** A clock that moves only by `advance`. Timers fire in order, each after the work started by earlier ones has ended. */
export class SimulatedClock implements Clock {
  readonly activity: TrackedActivity;
  readonly random: () => number;
  #now: number;
  readonly #start: number;
  /** Offset of the wall clock from the elapsed time. */
  #offset = 0;
  #order = 0;
  readonly #due = new Set<Due>();

  constructor(options: { at: string; seed?: number; activity?: TrackedActivity }) {
    this.#now = Date.parse(options.at);
    this.#start = this.#now;
    this.random = seededRandom(options.seed ?? 1);
    this.activity = options.activity ?? trackActivity();
  }

  now(): Date {
    return new Date(this.#now + this.#offset);
  }

  monotonic(): number {
    return this.#now - this.#start;
  }

  /** Adjusts the wall clock forward, or backward for a negative number; the monotonic clock and the timers are unaffected. */
  jump(milliseconds: number): void {
    this.#offset += milliseconds;
  }

  setTimer(ms: number, work: () => unknown): Timer {
    const due: Due = { at: this.#now + Math.max(0, ms), order: (this.#order += 1), work };
    this.#due.add(due);
    return { cancel: () => void this.#due.delete(due) };
  }

  every(ms: number, work: () => unknown): Timer {
    return repeat(this, ms, work);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, ms, signal);
  }

  randomBytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => Math.floor(this.random() * 256));
  }

  /** Moves time forward and runs the timers that become due. Resolves when no timer is due and no tracked work is pending. */
  async advance(step: { milliseconds?: number; seconds?: number; minutes?: number; hours?: number; days?: number }): Promise<void> {
    const { milliseconds = 0, seconds = 0, minutes = 0, hours = 0, days = 0 } = step;
    const target = this.#now + milliseconds + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)));
    for (;;) {
      await this.activity.idle();
      const next = this.#next(target);
      if (next === undefined) break;
      this.#due.delete(next);
      this.#now = Math.max(this.#now, next.at);
      // Do not count the timer's function as pending work: if it sleeps on this clock, `advance` would wait forever. Its queries and frames
      // are counted.
      void next.work();
    }
    this.#now = target;
  }

  #next(until: number): Due | undefined {
    let first: Due | undefined;
    for (const due of this.#due) {
      if (due.at > until) continue;
      if (first === undefined || due.at < first.at || (due.at === first.at && due.order < first.order)) first = due;
    }
    return first;
  }
}

/** A small seeded generator (mulberry32): the same seed produces the same numbers in [0, 1) on every machine. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
