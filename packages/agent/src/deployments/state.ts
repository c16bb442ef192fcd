import type { DesiredApp, DesiredRelease } from "@roamfleet/protocol/link";
import type { SignedHistory } from "../signing/admit-release.ts";
import { REPORT_MESSAGE_CHARACTERS_MAX } from "../runtime/limits.ts";

/** Phase of the change of an app. The server receives the same name, except that `removing` is reported as `rolling_back`. */
export type Phase = "downloading" | "staged" | "installing" | "verifying" | "rolling_back" | "removing";

export interface Failure {
  reason: string;
  message: string;
}

/** The change in progress of an app. */
export interface Work {
  /** Id of the deployment's target; null if the robot converges to its desired state without a deployment. */
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  /** The release to install; null if the app is being removed from the robot. */
  release: DesiredRelease | null;
  verify_seconds: number;
  phase: Phase;
  /** How often this phase was begun, including by earlier runs of the agent. */
  tries: number;
  /** Why the release is rolled back; null in other phases. */
  failure: Failure | null;
}

export type FinalStatus = "applied" | "rolled_back" | "failed" | "cancelled";

/** How a change of an app ended. It is reported again if the server sends the same target again. */
export interface Finished {
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  release_id: string | null;
  status: FinalStatus;
  reason: string | null;
  message: string | null;
  /** True once the report is in the outbox. */
  reported: boolean;
}

export interface AppState {
  app: string;
  /** The release that runs, or that runs again after a restart. */
  current: DesiredRelease | null;
  /** The release that ran before the current one; it stays on disk for a rollback. */
  previous: DesiredRelease | null;
  work: Work | null;
  /** History of the signed releases that ran; absent if none ran yet. */
  signed?: SignedHistory | undefined;
  /** Outcomes of the latest changes, newest last. */
  finished: Finished[];
}

/** Returns the release that runs now, or is about to. */
export const runningRelease = ({ work, current }: AppState): DesiredRelease | null =>
  work !== null && (work.phase === "installing" || work.phase === "verifying") ? work.release : current;

export const FINISHED_MAX = 8;

export const emptyState = (app: string): AppState => ({ app, current: null, previous: null, work: null, finished: [] });

/**
 * The desired state of an app. `unknown`: the robot never received a desired state. `absent`: the desired state does not contain the
 * app.
 */
export type DesiredAppState = DesiredApp | "absent" | "unknown";

export const namesTarget = (desired: DesiredAppState): desired is DesiredApp & { target_id: string } =>
  typeof desired === "object" && desired.target_id !== null;

/** Returns the recorded outcome of the desired target, for its current attempt or a later one; undefined if the target has not ended. */
export function finishedTarget(state: AppState, desired: DesiredAppState): Finished | undefined {
  if (!namesTarget(desired)) return undefined;
  return state.finished.findLast((one) => one.target_id === desired.target_id && one.attempt >= desired.attempt);
}

/**
 * Returns the `reason` and `message` fields of a report, without those that have no value. The message is truncated to the protocol's
 * limit.
 */
export function explain(reason: string | null | undefined, message: string | null | undefined): { reason?: string; message?: string } {
  return { ...(reason ? { reason } : {}), ...(message ? { message: message.slice(0, REPORT_MESSAGE_CHARACTERS_MAX) } : {}) };
}
