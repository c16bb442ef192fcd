import type { Rollout } from "@roamfleet/protocol/routes";
import type { Behavior, RobotStep } from "../../packages/swarm/src/testing/app-runner.ts";
import type { Chance } from "./chance.ts";
import type { Setting } from "./server.ts";

const SECOND_MS = 1_000;

/** Chooses the numbers of robots and releases. They are small: most faults occur with few objects too, in fewer steps. */
export function anySetting(chance: Chance): Setting {
  const fleets = chance.of([[1], [2], [3], [4], [6], [2, 2], [1, 3]]);
  const releases = chance.of([
    ["main", "main"],
    ["main", "main", "main"],
    ["main", "main", "camera"],
  ]);
  return { fleets, releases, incompatible_release: chance.happens(0.15) ? releases.length - 1 : null };
}

/** Chooses how a robot handles releases from now on. */
export function anyBehavior(chance: Chance): Behavior {
  const ms = chance.of([0, 0, 1, 20, 90]) * SECOND_MS;
  const step_ms = { downloading: ms, staged: chance.of([0, 5, 60]) * SECOND_MS, installing: ms / 2, verifying: ms, rolling_back: ms / 2 };
  const step = chance.of<Exclude<RobotStep, "rolling_back">>(["downloading", "staged", "installing", "verifying"]);
  const reason = chance.of(["download_failed", "crash_loop", "insufficient_disk", "health_check_failed"]);
  return chance.weighted<Behavior>([
    [6, { step_ms }],
    [4, { step_ms, failure: { at: step, reason } }],
    [2, { step_ms, failure: { at: "verifying", reason: "health_check_failed" } }],
    [1, { step_ms, failure: { at: "verifying", reason: "health_check_failed" }, rollback_fails: true }],
    [1, { step_ms, offline_at: step }],
    [1, { step_ms, offline_at: "applied" }],
    [1, { step_ms, stuck_at: chance.of(["downloading", "staged", "installing", "verifying", "rolling_back"]) }],
    [1, { ignores: true }],
  ]);
}

/** Chooses a policy for a fleet. Each part may be absent. */
export function anyRollout(chance: Chance, expires_at: Date): Rollout {
  const part = <T>(probability: number, value: () => T): T | undefined => (chance.happens(probability) ? value() : undefined);
  const wave = () => ({
    ...chance.of([{ count: 1 }, { count: 2 }, { percent: 10 }, { percent: 50 }, { percent: 100 }, { labels: { zone: "a" } }]),
    soak_seconds: chance.of([0, 0, 5, 60]),
    gate: chance.of(["auto", "auto", "manual"] as const),
  });
  const rollout = {
    waves: part(0.5, () => Array.from({ length: 1 + chance.below(3) }, wave)),
    max_parallel: part(0.25, () => 1 + chance.below(3)),
    max_unavailable: part(0.1, () => chance.of([{ count: 1 }, { count: 2, group_by: "site" }, { percent: 50 }])),
    failure_threshold: part(0.4, () => ({
      ...chance.of([{ count: 0 }, { count: 1 }, { percent: 0 }, { percent: 34 }, { percent: 60 }]),
      min_decided: chance.of([1, 1, 2]),
    })),
    on_failure: part(0.6, () => chance.of(["stop", "pause", "rollback"] as const)),
    expires_at: part(0.2, () => expires_at.toISOString()),
    max_attempts: part(0.3, () => chance.of([1, 2, 3])),
    verify_seconds: chance.of([0, 5, 30]),
  };
  return Object.fromEntries(Object.entries(rollout).filter(([, value]) => value !== undefined));
}
