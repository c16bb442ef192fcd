import type { Loop } from "./server.ts";

/** Frequencies of events. Each schedule has one theme, so that events that are rare in one are common in another. */
export interface Theme {
  operates: number;
  behaves: number;
  breaks: number;
  crashes_before_report: number;
  is_late: number;
  time: number;
  removes: number;
}

const EVEN: Theme = { operates: 5, behaves: 3, breaks: 2, crashes_before_report: 3, is_late: 8, time: 9, removes: 0.5 };
export const THEMES: readonly Theme[] = [
  EVEN,
  { ...EVEN, operates: 30, time: 4, removes: 0.4 },
  { ...EVEN, behaves: 8, breaks: 6, crashes_before_report: 8, is_late: 20 },
  { ...EVEN, operates: 10, time: 22, removes: 7 },
];

/** How often each loop runs, relative to the others. */
export const LOOP_WEIGHTS: readonly (readonly [number, Loop])[] = [
  [8, "dispatch"],
  [2, "fan_out"],
  [5, "rollouts"],
  [2, "cancellations"],
  [2, "rollbacks"],
  [3, "deadlines"],
  [1, "expiry"],
  [2, "schedule"],
  [1, "repair"],
];
