import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";

export interface Background {
  /** Starts a run. If one is in progress, another run follows it. */
  wake(): void;
  /** Resolves when the work has run for every wake so far. */
  settled(): Promise<void>;
  /** Prevents further runs. Resolves when the current run has ended. */
  stop(): Promise<void>;
}

/**
 * Runs `work` on a timer and on each wake, never concurrently on this node. Wakes may be lost: the timer guarantees that `work` runs. If
 * `work` returns true, it has not finished, and runs again immediately.
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
        context.log.error({ err: error, work: name }, "a background task failed");
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

/**
 * Interval at which a pending alarm reads the wall clock, because the clock may be changed meanwhile. If the alarm's time is far ahead, the
 * longer interval applies.
 */
const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_MS_FAR = 30_000;
/** An alarm whose time is further ahead than this uses LOOK_EVERY_MS_FAR. The clocks of machines are wrong by minutes, not more. */
const FAR_MS = 900_000;
/** Delay of an alarm for a time in the past. Usually, another node is processing the work at that moment. */
const DUE_ALREADY_MS = 10;

interface Alarm {
  /** Sets the time of the alarm and replaces an earlier one. Null cancels the alarm. */
  set: (at: Date | null) => void;
  cancel: () => void;
}

/**
 * Calls `ring` once when the wall clock reaches the set time, never earlier. If the clock is changed meanwhile, the call is at most 1 s
 * late, or 30 s for a time more than 15 minutes ahead.
 */
export function alarm(clock: Pick<Clock, "now" | "setTimer">, ring: () => void): Alarm {
  let timer: Timer | undefined;
  const wait = (at: Date): void => {
    const left_ms = at.getTime() - clock.now().getTime();
    timer = clock.setTimer(Math.min(left_ms, left_ms > FAR_MS ? LOOK_EVERY_MS_FAR : LOOK_EVERY_MS), () =>
      clock.now() < at ? wait(at) : ring(),
    );
  };
  const cancel = (): void => timer?.cancel();
  return {
    set: (at) => {
      cancel();
      if (at !== null && at > clock.now()) wait(at);
      else if (at !== null) timer = clock.setTimer(DUE_ALREADY_MS, ring);
    },
    cancel,
  };
}
