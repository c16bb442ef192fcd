/**
 * Counts work in flight (queries, frames), so that a test which owns time knows when nothing is
 * pending any more. Production passes `idleActivity`, which counts nothing.
 */
export interface Activity {
  /** Marks the start of a piece of work; call the answer exactly once when it ended. */
  begin(): () => void;
}

export const idleActivity: Activity = { begin: () => () => {} };

export interface TrackedActivity extends Activity {
  readonly pending: number;
  /** Resolves when nothing has been pending for a few turns of the event loop. */
  idle(): Promise<void>;
}

/** Turns of the event loop without work before we call it idle: a promise chain between two queries takes fewer. */
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
        if (performance.now() > deadline) throw new Error(`still ${pending} pieces of work in flight after ${IDLE_TIMEOUT_MS} ms`);
      }
    },
  };
}
