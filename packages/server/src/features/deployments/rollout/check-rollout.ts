import { EXPIRES_DAYS_MAX, type Rollout } from "@roamfleet/protocol/routes";
import { badRequest } from "../../../kernel/fault.ts";
import { parseTime } from "../../../kernel/time.ts";
import { checkWindow } from "./window.ts";

const DAY_MS = 86_400_000;

/** Refuses (400, naming the field) a policy that matches its schema but contradicts itself, the target or the time. */
export function checkRollout(rollout: Rollout, target_kind: "robot" | "fleet", now: Date, scheduled_at: Date | null): void {
  const { waves, failure_threshold: threshold, max_unavailable, window, expires_at } = rollout;
  if (target_kind === "robot") {
    if (waves !== undefined) throw badRequest("rollout.waves are for a fleet: remove them to deploy to one robot");
    if (threshold !== undefined) throw badRequest("rollout.failure_threshold is for a fleet: remove it to deploy to one robot");
  }
  for (const [number, wave] of waves?.entries() ?? [])
    requireOne(`rollout.waves.${number}`, { percent: wave.percent, count: wave.count, labels: wave.labels });
  waves?.forEach(({ labels }, number) => {
    if (labels !== undefined && Object.keys(labels).length === 0)
      throw badRequest(`rollout.waves.${number}.labels names no label; remove the wave: robots in no wave are updated last`);
  });
  if (threshold !== undefined) requireOne("rollout.failure_threshold", { percent: threshold.percent, count: threshold.count });
  if (max_unavailable !== undefined)
    requireOne("rollout.max_unavailable", { percent: max_unavailable.percent, count: max_unavailable.count });
  const wrong = window === undefined ? undefined : checkWindow(window, scheduled_at ?? now);
  if (wrong !== undefined) throw badRequest(wrong);
  if (expires_at !== undefined) checkExpiry(parseTime(expires_at), now, scheduled_at);
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
  throw badRequest(given.length === 0 ? `${field} needs one of ${all}` : `${field} takes only one of ${all}, not ${given.join(" and ")}`);
}
