import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";

export interface Background {
  /** Runs the work soon: at once when idle, once more after the present run otherwise. */
  wake(): void;
  /** Resolves when the work has run for every wake so far. */
  settled(): Promise<void>;
  /** No run starts after this; resolves when the present one has ended. */
  stop(): Promise<void>;
}

/**
 * Work that is due by the clock or by a hint, never twice at a time on this node. A hint may be lost, the timer is the
 * guarantee. `work` answers true when it left something undone and wants to run again at once.
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
