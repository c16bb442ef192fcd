import type { ReportedStatus } from "@robofleet/protocol/link";

/** What a simulated robot does on its way to a release; each takes the time that its behaviour gives it. */
export const STEPS = ["downloading", "staged", "installing", "verifying", "rolling_back"] as const;
export type RobotStep = (typeof STEPS)[number];

/** How a robot takes a release. Without anything: every step at once, then `applied`. */
export interface Behaviour {
  /** Milliseconds that each step takes; 0, if absent. */
  step_ms?: Partial<Record<RobotStep, number>>;
  /** Fails in this step, for this reason; from installing on the robot goes back to what it ran, if it ran something. */
  failure?: { at: Exclude<RobotStep, "rolling_back">; reason: string };
  /** The way back fails too. */
  rollback_fails?: true;
  /** Reports this step and is silent from then on: it neither goes on nor heeds a cancellation. */
  stuck_at?: RobotStep;
  /** Acts as if the desired state had never come. */
  ignores?: true;
  /** Loses its link right after it has reported this, and goes on alone. */
  offline_at?: ReportedStatus;
}

/** Goes the whole way, each step in the time given in milliseconds. */
export const apply = (step_ms: Behaviour["step_ms"] = {}): Behaviour => ({ step_ms });

/** Like `apply`, with as many milliseconds for every step. */
export const slow = (ms: number): Behaviour => ({
  step_ms: { downloading: ms, staged: ms, installing: ms, verifying: ms, rolling_back: ms },
});

/** Ends `failed` before anything has changed on the robot: the download broke, the disk is full, the bundle is refused. */
export const fail = (reason: string, at: "downloading" | "staged" = "downloading", step_ms: Behaviour["step_ms"] = {}): Behaviour => ({
  step_ms,
  failure: { at, reason },
});

/** Runs it, finds it unwell and goes back; with nothing to go back to it ends `failed`. */
export const rollBack = (reason = "health_check_failed", step_ms: Behaviour["step_ms"] = {}): Behaviour => ({
  step_ms,
  failure: { at: "verifying", reason },
});

export const ignore: Behaviour = { ignores: true };
export const stuckAt = (step: RobotStep): Behaviour => ({ stuck_at: step });
export const offlineAt = (status: ReportedStatus, step_ms: Behaviour["step_ms"] = {}): Behaviour => ({ step_ms, offline_at: status });
