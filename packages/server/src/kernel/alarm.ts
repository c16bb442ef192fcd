import type { Clock, Timer } from "@roamfleet/clock";

/** How often one who waits for a moment looks at the clock, which somebody may set meanwhile; less often while it is far. */
const LOOK_EVERY_MS = 1_000;
const LOOK_EVERY_MS_FAR = 30_000;
/** Clocks of machines are off by minutes. */
const FAR_MS = 900_000;
/** What is due and still there is somebody else's at this very moment. */
const DUE_ALREADY_MS = 10;

export interface Alarm {
  /** Instead of the moment before; null: none. */
  set: (at: Date | null) => void;
  cancel: () => void;
}

/** Rings once at a moment of the wall clock, not before, and at most a second late when the clock is set while it waits. */
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
