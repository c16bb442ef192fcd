import type { Clock } from "@roamfleet/clock";

/** Returns a clock whose time is shifted by `offset_ms`, as on a server without NTP. It uses the timers of the given clock. */
export function shiftedClock(clock: Clock, offset_ms: number): Clock {
  if (offset_ms === 0) return clock;
  return {
    now: () => new Date(clock.now().getTime() + offset_ms),
    monotonic: () => clock.monotonic(),
    setTimer: (ms, work) => clock.setTimer(ms, work),
    every: (ms, work) => clock.every(ms, work),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    random: () => clock.random(),
    randomBytes: (count) => clock.randomBytes(count),
  };
}
