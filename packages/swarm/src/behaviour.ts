import type { ReportedStatus } from "@roamfleet/protocol/link";

/** The steps of a simulated update; the behavior sets the duration of each. */
export const STEPS = ["downloading", "staged", "installing", "verifying", "rolling_back"] as const;
export type RobotStep = (typeof STEPS)[number];

/** How a robot handles a release. Default: every step immediately, then `applied`. */
export interface Behaviour {
  /** Duration of each step in milliseconds; default 0. */
  step_ms?: Partial<Record<RobotStep, number>>;
  /** Fails in this step for this reason; from installing on the robot rolls back to its previous release, if any. */
  failure?: { at: Exclude<RobotStep, "rolling_back">; reason: string };
  /** The rollback fails too. */
  rollback_fails?: true;
  /** Reports this step and then nothing more: it does not continue and ignores a cancellation. */
  stuck_at?: RobotStep;
  /** Ignores the desired state. */
  ignores?: true;
  /** Drops its link right after reporting this status and continues offline. */
  offline_at?: ReportedStatus;
}

/** Completes all steps, each with the given duration in milliseconds. */
export const apply = (step_ms: Behaviour["step_ms"] = {}): Behaviour => ({ step_ms });

/** Like `apply`, with the same duration for every step. */
export const slow = (ms: number): Behaviour => ({
  step_ms: { downloading: ms, staged: ms, installing: ms, verifying: ms, rolling_back: ms },
});

/** Ends `failed` before anything has changed on the robot: download failed, disk full, or bundle refused. */
export const fail = (reason: string, at: "downloading" | "staged" = "downloading", step_ms: Behaviour["step_ms"] = {}): Behaviour => ({
  step_ms,
  failure: { at, reason },
});

/** Starts the release, finds it unhealthy and rolls back; ends `failed` without a previous release. */
export const rollBack = (reason = "health_check_failed", step_ms: Behaviour["step_ms"] = {}): Behaviour => ({
  step_ms,
  failure: { at: "verifying", reason },
});

export const ignore: Behaviour = { ignores: true };
export const stuckAt = (step: RobotStep): Behaviour => ({ stuck_at: step });
export const offlineAt = (status: ReportedStatus, step_ms: Behaviour["step_ms"] = {}): Behaviour => ({ step_ms, offline_at: status });
