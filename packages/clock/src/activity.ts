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

/** Event loop turns without work that count as idle: a promise chain between two queries takes fewer. */
const QUIET_TURNS = 6;
const IDLE_TIMEOUT_MS = 120_000;

export function trackActivity(): TrackedActivity {
  let pending = 0;
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
      };
    },
    async idle() {
      const deadline = performance.now() + IDLE_TIMEOUT_MS;
      let quiet = 0;
      while (quiet < QUIET_TURNS) {
        await new Promise((resolve) => setImmediate(resolve));
        quiet = pending === 0 ? quiet + 1 : 0;
        if (performance.now() > deadline) throw new Error(`still ${pending} tasks in flight after ${IDLE_TIMEOUT_MS} ms`);
      }
    },
  };
}
