import type { Clock, Timer } from "@roamfleet/clock";

/**
 * How often the wall clock is read while an alarm is pending, because it may be changed meanwhile. Less often while the time is far ahead.
 */
const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_MS_FAR = 30_000;
/** A time further ahead counts as far. Clocks of machines are wrong by minutes, not more. */
const FAR_MS = 900_000;
/** Delay for a time that is already past. Usually another node is processing the due work at that moment. */
const DUE_ALREADY_MS = 10;

export interface Alarm {
  /** Replaces the time. Null cancels. */
  set: (at: Date | null) => void;
  cancel: () => void;
}

/**
 * Calls `ring` once at a time of the wall clock: not before, and at most 1 s late (30 s if more than 15 minutes ahead) when the clock is
 * changed.
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
