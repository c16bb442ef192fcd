import { type Clock, sleepOn, type Timer } from "./clock.ts";

/** Returns a backoff delay: `first_ms` for 0 failures, doubled for each further failure, up to `last_ms`. */
export const exponentialMs = (first_ms: number, last_ms: number, failures: number): number =>
  Math.min(last_ms, first_ms * 2 ** Math.min(failures, 16));

interface TimeLimit extends Disposable {
  /** A signal that is aborted with `reason` after the time limit, or when the parent signal is aborted. */
  readonly signal: AbortSignal;
  readonly expired: boolean;
}

/** Starts a time limit for an operation. Dispose the result when the operation has ended. */
export function timeLimit(clock: Pick<Clock, "setTimer">, ms: number, reason: Error, parent?: AbortSignal): TimeLimit {
  const limit = new AbortController();
  const timer = clock.setTimer(ms, () => limit.abort(reason));
  return {
    signal: parent === undefined ? limit.signal : AbortSignal.any([parent, limit.signal]),
    get expired() {
      return limit.signal.aborted;
    },
    [Symbol.dispose]: () => timer.cancel(),
  };
}

/** Returns the value of `work`, or undefined after `ms` or when `signal` is aborted. `work` is not stopped. */
export async function within<T>(
  clock: Pick<Clock, "setTimer">,
  ms: number,
  work: Promise<T>,
  signal?: AbortSignal,
): Promise<T | undefined> {
  const settled = new AbortController();
  const ends = signal === undefined ? settled.signal : AbortSignal.any([settled.signal, signal]);
  try {
    return await Promise.race([work, sleepOn(clock, ms, ends).then(() => undefined)]);
  } finally {
    settled.abort();
  }
}

/** Calls `late` after `ms` milliseconds without activity. One timer serves many events, because a timer for each event would cost more. */
export class IdleTimeout {
  readonly #clock: Pick<Clock, "setTimer" | "monotonic">;
  readonly #ms: number;
  readonly #late: () => void;
  #active_at: number;
  #timer: Timer;

  constructor(clock: Pick<Clock, "setTimer" | "monotonic">, ms: number, late: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#late = late;
    this.#active_at = clock.monotonic();
    this.#timer = clock.setTimer(ms, () => this.#check());
  }

  touch(): void {
    this.#active_at = this.#clock.monotonic();
  }

  stop(): void {
    this.#timer.cancel();
  }

  /** Restarts the timeout after `stop`. */
  resume(): void {
    this.touch();
    this.#timer = this.#clock.setTimer(this.#ms, () => this.#check());
  }

  #check(): void {
    const left = this.#active_at + this.#ms - this.#clock.monotonic();
    if (left <= 0) this.#late();
    else this.#timer = this.#clock.setTimer(left, () => this.#check());
  }
}
