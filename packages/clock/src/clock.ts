/**
 * Counts work in flight (queries, frames), so that a test with a simulated clock can wait until nothing is pending. Production uses
 * `idleActivity`, which counts nothing.
 */
export interface Activity {
  /** Marks the start of work; call the returned function exactly once when it has ended. */
  begin(): () => void;
}

export const idleActivity: Activity = { begin: () => () => {} };

export interface TrackedActivity extends Activity {
  readonly pending: number;
  /** Resolves when nothing has been pending for several turns of the event loop. */
  idle(): Promise<void>;
}

/**
 * Number of consecutive event loop turns without pending work after which the process counts as idle. The code between two queries takes
 * fewer turns.
 */
const QUIET_TURNS = 6;
const IDLE_TIMEOUT_MS = 120_000;

export function trackActivity(): TrackedActivity {
  let pending = 0;
  let all_ended = Promise.withResolvers<void>();
  return {
    get pending() {
      return pending;
    },
    begin() {
      pending += 1;
      let ended = false;
      return () => {
        if (ended) return;
        ended = true;
        pending -= 1;
        if (pending > 0) return;
        all_ended.resolve();
        all_ended = Promise.withResolvers();
      };
    },
    async idle() {
      const expired = Promise.withResolvers<never>();
      expired.promise.catch(() => {}); // prevents an unhandled rejection if no wait is running
      const fail = (): void => expired.reject(new Error(`still ${pending} tasks in flight after ${IDLE_TIMEOUT_MS} ms`));
      const late = setTimeout(fail, IDLE_TIMEOUT_MS);
      try {
        let quiet = 0;
        while (quiet < QUIET_TURNS) {
          // Wait without polling. Polling would keep a core busy that the awaited process (PostgreSQL) needs.
          if (pending > 0) await Promise.race([all_ended.promise, expired.promise]);
          await new Promise((resolve) => setImmediate(resolve));
          quiet = pending === 0 ? quiet + 1 : 0;
        }
      } finally {
        clearTimeout(late);
      }
    },
  };
}

export interface Timer {
  cancel(): void;
}

/** Time, timers and randomness. Product code uses only this interface, so that tests and simulations control time. */
export interface Clock {
  /** Returns the wall-clock time, which may jump. */
  now(): Date;
  /** Returns the milliseconds since an arbitrary start. The number never decreases. */
  monotonic(): number;
  /** Calls `work` once after `ms` milliseconds. */
  setTimer(ms: number, work: () => unknown): Timer;
  /** Calls `work` every `ms` milliseconds without overlap: the next delay starts when the previous call has ended. */
  every(ms: number, work: () => unknown): Timer;
  /** Resolves after `ms` milliseconds, or immediately when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Returns a random number, uniformly distributed in [0, 1). */
  random(): number;
  /** Returns random bytes for ids. Secrets use node:crypto instead, also in simulations. */
  randomBytes(count: number): Uint8Array;
}

/** Maximum delay of setTimeout, a signed 32-bit number of milliseconds. A timer with a longer delay would fire immediately. */
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

/**
 * Returns a source of random bytes. It gets them in large batches, because each read costs 3 µs regardless of its length. No byte is
 * returned twice.
 */
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
