import type { WholeRollout } from "@roamfleet/protocol/routes";
import { Cron } from "croner";

export type Window = NonNullable<WholeRollout["window"]>;

export interface OpenWindow {
  opens_at: Date;
  closes_at: Date;
}

const MINUTE_MS = 60_000;

/** Returns the window that is open at `now`, or else the next one; null: it never opens again. Throws if `checkWindow` finds an error. Pure. */
export function nextWindow({ cron, time_zone, duration_minutes }: Window, now: Date): OpenWindow | null {
  const long_ms = duration_minutes * MINUTE_MS;
  // The first window that opened less than its duration ago, or opens later.
  const opens_at = new Cron(cron, { timezone: time_zone, mode: "5-part" }).nextRun(new Date(now.getTime() - long_ms));
  return opens_at === null ? null : { opens_at, closes_at: new Date(opens_at.getTime() + long_ms) };
}

function isTimeZone(name: string): boolean {
  try {
    return Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** Returns what is wrong with a window, as a message for the user; undefined: nothing. */
export function checkWindow(window: Window, now: Date): string | undefined {
  if (!isTimeZone(window.time_zone)) return "rollout.window.time_zone is not a known time zone; use a name such as Europe/Berlin";
  try {
    return nextWindow(window, now) === null ? "rollout.window.cron never opens the window" : undefined;
  } catch {
    return "rollout.window.cron must be five fields: minute hour day-of-month month day-of-week, such as 0 2 * * 1-5";
  }
}
