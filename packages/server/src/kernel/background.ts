import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";

export interface Background {
  /** Starts a run, or one more after the current run. */
  wake(): void;
  /** Resolves when the work has run for every wake so far. */
  settled(): Promise<void>;
  /** Prevents further runs. Resolves when the current run has ended. */
  stop(): Promise<void>;
}

/**
 * Runs work on a timer and when woken, never twice at a time on this node. Wakes may be lost, so the timer guarantees that work runs. If
 * `work` returns true, some work is left and it runs again immediately.
 */
export function background(
  context: { clock: Clock; log: Logger },
  name: string,
  every_ms: number,
  work: () => Promise<boolean | void>,
): Background {
  let running: Promise<void> | undefined;
  let again = false;
  let stopped = false;
  const run = async (): Promise<void> => {
    do {
      again = false;
      try {
        if ((await work()) === true) again = true;
      } catch (error) {
        context.log.error({ err: error, work: name }, "background work failed");
      }
    } while (again && !stopped);
  };
  const wake = (): void => {
    if (stopped) return;
    again = true;
    running ??= run().finally(() => {
      running = undefined;
      if (again) wake();
    });
  };
  const timer: Timer = context.clock.every(every_ms, () => {
    wake();
    return running;
  });
  return {
    wake,
    settled: async () => {
      while (running !== undefined) await running;
    },
    stop: async () => {
      stopped = true;
      timer.cancel();
      await running;
    },
  };
}
