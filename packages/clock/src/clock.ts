export interface Timer {
  cancel(): void;
}

/** Time, timers and randomness. Product code gets them from here only, so that tests and simulations own time. */
export interface Clock {
  /** Wall-clock time; may jump. */
  now(): Date;
  /** Milliseconds since an arbitrary start; never goes back. */
  monotonic(): number;
  /** Calls `work` once after `ms` milliseconds. */
  setTimer(ms: number, work: () => unknown): Timer;
  /** Calls `work` every `ms` milliseconds, never twice at a time: the next wait starts when the last call has ended. */
  every(ms: number, work: () => unknown): Timer;
  /** Resolves after `ms` milliseconds, or at once when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Uniform in [0, 1). */
  random(): number;
  /** Bytes for ids. Secrets come from node:crypto instead, also in simulations. */
  randomBytes(count: number): Uint8Array;
}

/** setTimeout fires at once for anything longer (a signed 32-bit number of milliseconds). */
const TIMER_MS_MAX = 2_147_483_647;

function setTimer(ms: number, work: () => unknown): Timer {
  if (ms > TIMER_MS_MAX) {
    let inner: Timer | undefined;
    const outer = setTimeout(() => {
      inner = setTimer(ms - TIMER_MS_MAX, work);
    }, TIMER_MS_MAX);
    return {
      cancel: () => {
        clearTimeout(outer);
        inner?.cancel();
      },
    };
  }
  const handle = setTimeout(() => void work(), Math.max(0, ms));
  return { cancel: () => clearTimeout(handle) };
}

export function repeat(clock: Pick<Clock, "setTimer">, ms: number, work: () => unknown): Timer {
  let cancelled = false;
  let timer: Timer;
  const turn = async (): Promise<void> => {
    try {
      await work();
    } finally {
      if (!cancelled) timer = clock.setTimer(ms, turn);
    }
  };
  timer = clock.setTimer(ms, turn);
  return {
    cancel: () => {
      cancelled = true;
      timer.cancel();
    },
  };
}

export function sleepOn(clock: Pick<Clock, "setTimer">, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = clock.setTimer(ms, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}

const RANDOM_POOL_BYTES = 4_096;

/** Asks the system for many bytes at once: each time costs 3 µs, whatever the length. None is given out twice. */
function randomPool(): (count: number) => Uint8Array {
  const pool = new Uint8Array(RANDOM_POOL_BYTES);
  let used = RANDOM_POOL_BYTES;
  return (count) => {
    if (count > RANDOM_POOL_BYTES) return crypto.getRandomValues(new Uint8Array(count));
    if (used + count > RANDOM_POOL_BYTES) {
      crypto.getRandomValues(pool);
      used = 0;
    }
    used += count;
    return pool.slice(used - count, used);
  };
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic: () => performance.now(),
  setTimer,
  every: (ms, work) => repeat(systemClock, ms, work),
  sleep: (ms, signal) => sleepOn(systemClock, ms, signal),
  random: () => Math.random(),
  randomBytes: randomPool(),
};
