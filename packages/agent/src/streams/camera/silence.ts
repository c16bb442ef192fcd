import type { Clock, Timer } from "@roamfleet/clock";

/** An idle timeout: calls `late` after `ms` without activity. */
export class IdleTimeout {
  readonly #clock: Pick<Clock, "setTimer" | "monotonic">;
  readonly #ms: number;
  readonly #late: () => void;
  #heard_at: number;
  #timer: Timer;

  constructor(clock: Pick<Clock, "setTimer" | "monotonic">, ms: number, late: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#late = late;
    this.#heard_at = clock.monotonic();
    this.#timer = clock.setTimer(ms, () => this.#check());
  }

  heard(): void {
    this.#heard_at = this.#clock.monotonic();
  }

  stop(): void {
    this.#timer.cancel();
  }

  /** Uses one timer for many frames, instead of one for each. */
  #check(): void {
    const left = this.#heard_at + this.#ms - this.#clock.monotonic();
    if (left <= 0) this.#late();
    else this.#timer = this.#clock.setTimer(left, () => this.#check());
  }
}
