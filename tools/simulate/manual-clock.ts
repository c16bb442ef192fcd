import type { Clock, Timer } from "@roamfleet/clock";

interface Due {
  at: number;
  order: number;
  work: () => unknown;
}

/**
 * A clock that moves only by `advance`, which runs all due timers in order before it returns. For synchronous work; asynchronous work needs
 * SimulatedClock.
 */
export class ManualClock implements Clock {
  readonly random: () => number;
  #now: number;
  #order = 0;
  #due: Due[] = [];

  constructor(at: number, random: () => number) {
    this.#now = at;
    this.random = random;
  }

  now(): Date {
    return new Date(this.#now);
  }

  monotonic(): number {
    return this.#now;
  }

  setTimer(ms: number, work: () => unknown): Timer {
    const due: Due = { at: this.#now + Math.max(0, ms), order: (this.#order += 1), work };
    const behind = this.#due.findIndex((other) => other.at > due.at);
    this.#due.splice(behind === -1 ? this.#due.length : behind, 0, due);
    return { cancel: () => void (this.#due = this.#due.filter((other) => other !== due)) };
  }

  every(): never {
    throw new Error("a schedule turns its loops itself");
  }

  sleep(): never {
    throw new Error("nothing in a schedule may sleep");
  }

  randomBytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => Math.floor(this.random() * 256));
  }

  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const next = this.#due[0];
      if (next === undefined || next.at > until) break;
      this.#due.shift();
      this.#now = next.at;
      next.work();
    }
    this.#now = until;
  }
}
