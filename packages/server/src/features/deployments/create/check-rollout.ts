import type { TargetKind } from "@roamfleet/protocol";
import { METRIC_GATE_BOUNDS } from "@roamfleet/protocol/metric-gate";
import { EXPIRES_DAYS_MAX, type Rollout, type WholeRollout } from "@roamfleet/protocol/routes";
import { badRequest } from "../../../kernel/fault.ts";
import { parseTime } from "../../../kernel/time.ts";
import { VERIFY_SECONDS_DEFAULT } from "../policy.ts";
import { Cron } from "croner";

const DAY_MS = 86_400_000;

/** Throws 400, naming the field, if a policy matches its schema but contradicts itself, the kind of target or the current time. */
export function checkRollout(rollout: Rollout, target_kind: TargetKind, now: Date, scheduled_at: Date | null): void {
  const { waves, failure_threshold: threshold, max_unavailable, window, expires_at } = rollout;
  if (target_kind === "robot") {
    if (waves !== undefined) throw badRequest("rollout.waves can only be used with a fleet: remove it to deploy to one robot");
    if (threshold !== undefined)
      throw badRequest("rollout.failure_threshold can only be used with a fleet: remove it to deploy to one robot");
  }
  for (const [number, wave] of waves?.entries() ?? [])
    requireOne(`rollout.waves.${number}`, { percent: wave.percent, count: wave.count, labels: wave.labels });
  waves?.forEach(({ labels }, number) => {
    if (labels !== undefined && Object.keys(labels).length === 0)
      throw badRequest(`rollout.waves.${number}.labels contains no label; remove the wave, because robots in no wave are updated last`);
  });
  for (const [number, { gate_metrics = [], soak_seconds = 0 }] of waves?.entries() ?? []) {
    if (gate_metrics.length > 0 && soak_seconds === 0)
      throw badRequest(`rollout.waves.${number}.gate_metrics needs soak_seconds: the time in which metrics are measured`);
    for (const [i, gate] of gate_metrics.entries())
      requireOne(`rollout.waves.${number}.gate_metrics.${i}`, Object.fromEntries(METRIC_GATE_BOUNDS.map((bound) => [bound, gate[bound]])));
  }
  if (threshold !== undefined) requireOne("rollout.failure_threshold", { percent: threshold.percent, count: threshold.count });
  if (max_unavailable !== undefined)
    requireOne("rollout.max_unavailable", { percent: max_unavailable.percent, count: max_unavailable.count });
  const wrong = window === undefined ? undefined : checkWindow(window, scheduled_at ?? now);
  if (wrong !== undefined) throw badRequest(wrong);
  if (expires_at !== undefined) checkExpiry(parseTime(expires_at), now, scheduled_at);
}

/** Throws 400, naming the field, if a policy requires what only a release supports. */
export function checkConfigRollout({ window, on_failure, verify_seconds = VERIFY_SECONDS_DEFAULT }: Rollout): void {
  const refuse = (field: string, why: string) => badRequest(`rollout.${field} can only be used with a release: ${why}`);
  if (window !== undefined)
    throw refuse("window", "a robot applies config files when it receives them; to start at a later time, use scheduled_at");
  if (on_failure === "rollback") throw refuse("on_failure rollback", "use stop or pause, then set the earlier values and deploy them");
  if (verify_seconds !== VERIFY_SECONDS_DEFAULT)
    throw refuse(
      "verify_seconds",
      "robots do not verify config files; to observe updated robots, use soak_seconds and the gates of a wave",
    );
}

function checkExpiry(expires_at: Date, now: Date, scheduled_at: Date | null): void {
  const starts_at = scheduled_at !== null && scheduled_at > now ? scheduled_at : now;
  if (expires_at <= starts_at)
    throw badRequest(`rollout.expires_at must be after ${starts_at === now ? "now" : "scheduled_at"}: it would expire before it starts`);
  if (expires_at.getTime() > starts_at.getTime() + EXPIRES_DAYS_MAX * DAY_MS)
    throw badRequest(`rollout.expires_at is more than ${EXPIRES_DAYS_MAX} days after its start`);
}

function requireOne(field: string, fields: Record<string, unknown>): void {
  const names = Object.keys(fields);
  const given = names.filter((name) => fields[name] !== undefined);
  if (given.length === 1) return;
  const all = `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  throw badRequest(given.length === 0 ? `${field} needs one of ${all}` : `${field} accepts only one of ${all}, not ${given.join(" and ")}`);
}

export type Window = NonNullable<WholeRollout["window"]>;

export interface OpenWindow {
  opens_at: Date;
  closes_at: Date;
}

const MINUTE_MS = 60_000;

/**
 * Returns the window that is open at `now`, otherwise the next one; null if it never opens again. Throws on an invalid cron or time zone.
 */
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

/** Returns what is wrong with a window, as a message for the user. Undefined if the window is valid. */
export function checkWindow(window: Window, now: Date): string | undefined {
  if (!isTimeZone(window.time_zone)) return "rollout.window.time_zone is not a known time zone; use a name such as Europe/Berlin";
  try {
    return nextWindow(window, now) === null ? "rollout.window.cron matches no time, so the window would never open" : undefined;
  } catch {
    return "rollout.window.cron must be five fields: minute hour day-of-month month day-of-week, such as 0 2 * * 1-5";
  }
}
