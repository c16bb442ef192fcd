import type { Rollout, WholeRollout } from "@roamfleet/protocol/routes";
import { wholeRollout } from "../policy.ts";
import { type GateCheck, GATE_DATA_WAIT_MS } from "./gate-checks.ts";

/** Facts about the wave that was opened last. */
export interface WaveFacts {
  /** Number of the wave, counted from 0, and the number of all waves. */
  wave: number;
  wave_count: number;
  /** Numbers of the wave's targets: not opened yet (`pending`), `active`, and ended as `applied`, `failed` or `rolled_back` (`decided`). */
  pending: number;
  active: number;
  decided: number;
  /**
   * Numbers of the wave's queued targets: all (`queued`), not waiting for their robot to connect or to be approved (`blocked`), waiting for
   * the gate (`gated`).
   */
  queued: number;
  blocked: number;
  gated: number;
  /** When the wave passed. Null if it has not passed, or must pass again. */
  passed_at: Date | null;
  /** How long the wave's robots run the release before the next wave starts, and whether the next wave needs a manual promotion. */
  soak_seconds: number;
  gate: "auto" | "manual";
  /** The gate between the previous wave and this one; `auto` for the first wave. */
  gate_before: "auto" | "manual";
  /** The last wave after which a user promoted the deployment; -1: none. */
  promoted_wave: number;
  /** Whether the deployment is paused. A passed wave is then recorded, but no targets are queued. */
  paused: boolean;
  /** The checks of the gate after the wave. */
  checks: readonly GateCheck[];
  /** When a user last resumed the deployment after a gate had paused it. */
  gate_accepted_at: Date | null;
}

export type NextStep =
  /** Queue more targets of the wave. If the gate before the wave is closed (`gated`), these targets wait for it. */
  | { do: "open"; gated: boolean }
  /** The gate before the wave is open: release the targets that wait for it. */
  | { do: "lift_gate" }
  /** Record that the wave has passed. */
  | { do: "pass" }
  /** Record that the wave must pass again: it had passed, but one of its robots is active again. */
  | { do: "pass_again" }
  | { do: "soak"; until: Date }
  /** The soak time is over, but a check has not seen all data of it. Look again at `until`. */
  | { do: "await_data"; until: Date; check: GateCheck }
  /** Pause the deployment: a check of the gate failed, or its data did not arrive. */
  | { do: "fail_gate"; check: GateCheck; message: string }
  /** Continue with the next wave, whose gate may be closed. */
  | { do: "next"; gated: boolean }
  /** Something else must happen first: a robot reports, a user acts, or the deployment ends. */
  | { do: "wait" };

/**
 * Whether the wave has passed: all its targets have ended, except targets of offline robots and of those that await approval. If there are
 * such robots, at least one other robot must have been updated, failed or rolled back. Pure.
 */
export const hasPassed = ({ pending, active, queued, blocked, decided }: WaveFacts): boolean =>
  pending === 0 && active === 0 && blocked === 0 && (decided > 0 || queued === 0);

/** Whether the gate before the wave is open. Pure. */
export const isGateOpen = ({ wave, gate_before, promoted_wave }: Pick<WaveFacts, "wave" | "gate_before" | "promoted_wave">): boolean =>
  gate_before === "auto" || promoted_wave >= wave - 1;

/** Returns the next step of a rollout by waves. Pure: the same facts give the same step. */
export function nextStep(facts: WaveFacts, now: Date): NextStep {
  const { wave, wave_count, passed_at, soak_seconds, gate, promoted_wave, paused, checks } = facts;
  // The next wave, if it needs the gate of this one.
  const is_checked = wave + 1 < wave_count && promoted_wave < wave && !paused;
  const failed = is_checked ? checks.find(({ fails }) => fails) : undefined;
  if (failed !== undefined) return { do: "fail_gate", check: failed, message: failed.message };
  if (facts.pending > 0) return paused ? { do: "wait" } : { do: "open", gated: !isGateOpen(facts) };
  if (facts.gated > 0 && isGateOpen(facts)) return paused ? { do: "wait" } : { do: "lift_gate" };
  if (!hasPassed(facts)) return passed_at === null ? { do: "wait" } : { do: "pass_again" };
  if (passed_at === null) return { do: "pass" };
  if (wave + 1 >= wave_count || paused) return { do: "wait" };
  if (promoted_wave >= wave) return { do: "next", gated: false };
  const until = new Date(passed_at.getTime() + soak_seconds * 1_000);
  if (now < until) return { do: "soak", until };
  return stepWithoutData(facts, until, now) ?? { do: "next", gated: gate === "manual" };
}

/** A check whose data is incomplete is read again after this time. */
const AWAIT_DATA_MS = 5_000;

/**
 * Returns the step of a wave whose soak time ended at `until` if the data of a check does not cover it: wait, and fail after
 * GATE_DATA_WAIT_MS. A user who resumes after that accepts that data is missing.
 */
function stepWithoutData({ checks, gate_accepted_at }: WaveFacts, until: Date, now: Date): NextStep | undefined {
  const check = checks.find(({ covered_until }) => covered_until === null || covered_until < until);
  const deadline = new Date(until.getTime() + GATE_DATA_WAIT_MS);
  if (check === undefined || (gate_accepted_at !== null && gate_accepted_at >= deadline)) return undefined;
  if (now >= deadline) return { do: "fail_gate", check, message: check.missing };
  return { do: "await_data", check, until: new Date(Math.min(now.getTime() + AWAIT_DATA_MS, deadline.getTime())) };
}

/** Collects the facts about the wave that was opened last: its counters, and what its queued targets wait for. Pure. */
export function waveFactsOf(
  deployment: {
    rollout: Rollout;
    current_wave: number;
    wave_count: number;
    wave_passed_at: Date | null;
    promoted_wave: number;
    paused_at: Date | null;
    gate_accepted_at: Date | null;
  },
  counts: Record<"pending" | "active" | "queued" | "applied" | "failed" | "rolled_back", number>,
  held: Pick<WaveFacts, "blocked" | "gated">,
  checks: readonly GateCheck[],
): WaveFacts {
  const { current_wave } = deployment;
  const waves = wholeRollout(deployment.rollout).waves ?? [];
  const decided = counts.applied + counts.failed + counts.rolled_back;
  return {
    wave: current_wave,
    wave_count: deployment.wave_count,
    pending: counts.pending,
    active: counts.active,
    decided,
    queued: counts.queued,
    ...held,
    passed_at: deployment.wave_passed_at,
    // No robot runs the release yet, so there is nothing to observe.
    soak_seconds: decided === 0 ? 0 : (waves[current_wave]?.soak_seconds ?? 0),
    gate: waves[current_wave]?.gate ?? "auto",
    gate_before: waves[current_wave - 1]?.gate ?? "auto",
    promoted_wave: deployment.promoted_wave,
    paused: deployment.paused_at !== null,
    checks,
    gate_accepted_at: deployment.gate_accepted_at,
  };
}

/** Results of a rollout so far. */
export interface Tally {
  applied: number;
  failed: number;
  rolled_back: number;
  /** Robots to which the deployment was ever dispatched, each counted once. */
  dispatched: number;
}

type Threshold = WholeRollout["failure_threshold"];

export const failuresOf = ({ failed, rolled_back }: Tally): number => failed + rolled_back;

/** Whether more robots failed than the threshold allows; without a threshold none may fail. Pure. */
export function isTooMany(tally: Tally, threshold: Threshold): boolean {
  const failures = failuresOf(tally);
  if (threshold?.count !== undefined) return failures > threshold.count;
  return 100 * failures > (threshold?.percent ?? 0) * tally.dispatched;
}

type Policy = Pick<WholeRollout, "waves" | "failure_threshold">;

/**
 * Whether the rollout must stop because too many robots failed. A rollout without waves and without a threshold never stops early.
 * `failures_accepted` is the number of failures when a user resumed the rollout past its threshold, otherwise 0. After such a resume, the
 * next failure exceeds the threshold, however many robots were updated since. Pure.
 */
export function isExceeded(tally: Tally, { waves, failure_threshold }: Policy, failures_accepted: number): boolean {
  if (waves === null && failure_threshold === null) return false;
  const failures = failuresOf(tally);
  if (failures <= failures_accepted) return false;
  if (failures_accepted > 0) return true;
  return tally.applied + failures >= (failure_threshold?.min_decided ?? 1) && isTooMany(tally, failure_threshold);
}

/** Returns `failures_accepted` after a resume: all failures so far if they exceed the threshold, else unchanged. Pure. */
export const acceptedByResume = (tally: Tally, policy: Policy, failures_accepted: number): number =>
  isExceeded(tally, policy, failures_accepted) ? failuresOf(tally) : failures_accepted;

export type Wave = NonNullable<WholeRollout["waves"]>[number];

/**
 * Returns the cumulative size of a wave: how many of all targets are in this wave and the waves before it. Returns null for a wave by
 * labels, which contains all matching robots. `percent` and `count` are cumulative, too; a percentage is rounded up. Pure.
 */
export function reachOf({ percent, count }: Wave, total: number): number | null {
  if (percent !== undefined) return Math.min(total, Math.ceil((percent * total) / 100));
  return count === undefined ? null : Math.min(total, count);
}

const matches = (labels: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean =>
  Object.entries(wanted).every(([key, value]) => labels[key] === value);

/** Assigns robots to waves in the given order and returns each robot's wave. Robots in no wave get the last, implicit one. Pure. */
export function assignWaves(robots: readonly { labels: Readonly<Record<string, string>> }[], waves: readonly Wave[]): number[] {
  const rest = waves.length;
  const of_robot = robots.map(() => rest);
  let assigned = 0;
  for (const [number, wave] of waves.entries()) {
    const reach = reachOf(wave, robots.length);
    for (const [i, { labels }] of robots.entries()) {
      if (reach !== null && assigned >= reach) break;
      if (of_robot[i] !== rest || (reach === null && !matches(labels, wave.labels ?? {}))) continue;
      of_robot[i] = number;
      assigned += 1;
    }
  }
  return of_robot;
}

/** Robots of a deployment that can replace each other, and how many of them are unavailable. */
export interface Group {
  size: number;
  unavailable: number;
}

type MaxUnavailable = NonNullable<WholeRollout["max_unavailable"]>;

/** How many robots of the group may be unavailable: a percentage is rounded down, to at least one. Pure. */
export const allowedUnavailable = ({ size }: Group, { count, percent }: MaxUnavailable): number =>
  count ?? Math.max(1, Math.floor((size * (percent ?? 0)) / 100));

/** How many more robots of the group may be updated; below 0: more are unavailable than allowed. Pure. */
export const roomOf = (group: Group, limit: MaxUnavailable): number => allowedUnavailable(group, limit) - group.unavailable;
