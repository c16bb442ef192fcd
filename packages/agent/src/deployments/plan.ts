import type { DesiredApp, DesiredRelease } from "@roamfleet/protocol/link";
import { type AppState, type Failure, finishedTarget, type Phase, type DesiredAppState, type Work } from "./state.ts";

export type Step =
  | { type: "idle" }
  /** Wait, because the next step would change the running release and the robot does not allow that now. */
  | { type: "hold"; release: DesiredRelease | null; target_id: string | null; attempt: number }
  /** Start the current release of the journal, which does not run, for example after a restart of the agent. */
  | { type: "ensure_running"; release: DesiredRelease }
  /** Wait for the update window: until `opens_at`, or until the server sends another window (null). */
  | { type: "await_window"; opens_at: number | null }
  /** Report the release as failed, because this robot cannot install its kind. */
  | { type: "refuse"; desired: DesiredApp; failure: Failure }
  /** Check the health of the release, which runs already. */
  | { type: "confirm"; desired: DesiredApp; release: DesiredRelease }
  | { type: "begin"; desired: DesiredApp; phase: Extract<Phase, "downloading" | "removing"> }
  | { type: "cancel"; work: Work }
  | { type: "stage"; work: Work; release: DesiredRelease }
  | { type: "install"; work: Work; release: DesiredRelease }
  | { type: "verify"; work: Work; release: DesiredRelease }
  /** End the work as failed. Its phase was started too often without ending, so the release probably crashes the agent or the robot. */
  | { type: "give_up"; work: Work; failure: Failure }
  | { type: "roll_back"; work: Work; release: DesiredRelease; failure: Failure }
  | { type: "remove"; work: Work };
export type StepType = Step["type"];

export interface Situation {
  state: AppState;
  desired: DesiredAppState;
  /** Release kinds that this agent has an executor for. */
  kinds: readonly string[];
  /** Id of the release that runs now. */
  running: string | null;
  /** False during the backoff after a failed start of the current release. */
  may_start: boolean;
  /** False during the backoff after a failed attempt to converge without a deployment. */
  may_converge: boolean;
  /** False while the update lock or the safe-to-update check forbids changes of the running release. */
  may_install: boolean;
  /** Milliseconds since 1970 by the server's clock, as the robot estimates it. Update windows use this time. */
  server_now: number;
}

/** Maximum starts of a phase that never ends. After that the phase is assumed to crash the agent or the robot. */
export const PHASE_TRIES_MAX = 5;
/**
 * Maximum starts of a download. It is higher than PHASE_TRIES_MAX, since downloads resume and a robot may be switched off many
 * times during a long one.
 */
export const STAGE_TRIES_MAX = 100;

const IDLE: Step = { type: "idle" };

/** Computes the next step from the desired state, the current state and the work in progress. Pure. */
export function plan(situation: Situation): Step {
  const { state, running, may_start, kinds } = situation;
  const { current, work } = state;
  const undisturbed = work === null || work.phase === "downloading" || work.phase === "staged";
  if (undisturbed && current !== null && running !== current.id && may_start && kinds.includes(current.kind))
    return { type: "ensure_running", release: current };
  return work === null ? planNew(situation) : planWork(situation, work);
}

function planNew({ state, desired, kinds, running, may_converge, may_install }: Situation): Step {
  if (typeof desired === "string" || finishedTarget(state, desired) !== undefined) return IDLE;
  const { release, target_id, attempt } = desired;
  if (release === null) {
    if (target_id === null && (state.current === null || !may_converge)) return IDLE;
    return may_install ? { type: "begin", desired, phase: "removing" } : { type: "hold", release, target_id, attempt };
  }
  if (!kinds.includes(release.kind)) {
    const failure = {
      reason: "incompatible",
      message: `this agent cannot install releases of kind ${release.kind}, only ${kinds.join(", ")}`,
    };
    return target_id === null ? IDLE : { type: "refuse", desired, failure };
  }
  if (state.current?.id === release.id) {
    if (target_id === null) return IDLE;
    return running === release.id ? { type: "confirm", desired, release } : { type: "begin", desired, phase: "downloading" };
  }
  if (target_id === null && (!may_converge || provenBad(state, release.id))) return IDLE;
  return { type: "begin", desired, phase: "downloading" };
}

/** Reasons of failures that do not depend on the release: another attempt may succeed. */
const PASSING_REASONS: readonly (string | null)[] = ["download_failed", "insufficient_disk", "timeout"];

/**
 * Returns whether the last attempt of this release was rolled back, or failed for a reason other than PASSING_REASONS. Only a deployment
 * installs such a release again.
 */
function provenBad(state: AppState, release_id: string): boolean {
  const last = state.finished.findLast((one) => one.release_id === release_id && one.status !== "cancelled");
  return last !== undefined && (last.status === "rolled_back" || (last.status === "failed" && !PASSING_REASONS.includes(last.reason)));
}

/** Returns whether the work in progress still leads to the desired state. */
export function isWanted(work: Work, desired: DesiredAppState): boolean {
  // No desired state was ever received, so continue the journaled work.
  if (desired === "unknown") return true;
  if (desired === "absent") return false;
  // A rollback by the server has the same target, but the previous release and a higher attempt. So compare the releases, too.
  return desired.target_id === work.target_id && (desired.release?.id ?? null) === (work.release?.id ?? null);
}

/** Returns the step that waits for the server's update window; undefined if the window is open or none is set. */
function awaitWindow(desired: DesiredAppState, server_now: number): Step | undefined {
  if (typeof desired === "string") return undefined;
  const { install_from, install_until } = desired.policy;
  if (install_from !== undefined && server_now < install_from) return { type: "await_window", opens_at: install_from };
  return install_until === undefined || server_now < install_until ? undefined : { type: "await_window", opens_at: null };
}

function planWork({ state, desired, may_install, server_now }: Situation, work: Work): Step {
  const { release, phase, tries } = work;
  const worn_out = tries >= (phase === "downloading" ? STAGE_TRIES_MAX : PHASE_TRIES_MAX);
  if (phase === "removing" || release === null) {
    return worn_out
      ? { type: "give_up", work, failure: { reason: "rollback_failed", message: `the app could not be removed in ${tries} attempts` } }
      : { type: "remove", work };
  }
  const failure: Failure = {
    reason: "crash_loop",
    message: `the agent was restarted ${tries} times while ${phase.replace("_", " ")} release ${release.tag}`,
  };
  switch (phase) {
    case "downloading":
      if (!isWanted(work, desired)) return { type: "cancel", work };
      return worn_out ? { type: "give_up", work, failure } : { type: "stage", work, release };
    case "staged":
      if (!isWanted(work, desired)) return { type: "cancel", work };
      return (
        awaitWindow(desired, server_now) ??
        (may_install ? { type: "install", work, release } : { type: "hold", release, target_id: work.target_id, attempt: work.attempt })
      );
    case "installing":
      return worn_out ? { type: "roll_back", work, release, failure } : { type: "install", work, release };
    case "verifying":
      return worn_out ? { type: "roll_back", work, release, failure } : { type: "verify", work, release };
    case "rolling_back":
      if (worn_out)
        return {
          type: "give_up",
          work,
          failure: {
            reason: "rollback_failed",
            message: `release ${state.current?.tag ?? "none"} could not be started again in ${tries} attempts`,
          },
        };
      return { type: "roll_back", work, release, failure: work.failure ?? failure };
  }
}
