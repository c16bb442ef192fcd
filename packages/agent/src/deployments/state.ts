import type { DesiredApp, DesiredRelease } from "@roamfleet/protocol/link";
import type { SignedHistory } from "../signing/admit-release.ts";
import { REPORT_MESSAGE_CHARACTERS_MAX } from "../runtime/limits.ts";

/**
 * Phase of the work on an app. It is reported to the server under the same name, except `removing`, which is reported as `rolling_back`.
 */
export type Phase = "downloading" | "staged" | "installing" | "verifying" | "rolling_back" | "removing";

export interface Failure {
  reason: string;
  message: string;
}

/** The change in progress of an app. */
export interface Work {
  /** null: no deployment, the robot converges to its desired state. */
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  /** null: the app is removed from the robot. */
  release: DesiredRelease | null;
  verify_seconds: number;
  phase: Phase;
  /** How often this phase was begun, including by earlier runs of the agent. */
  tries: number;
  /** Why the release is rolled back; null in other phases. */
  failure: Failure | null;
}

export type FinalStatus = "applied" | "rolled_back" | "failed" | "cancelled";

/** How a piece of work ended; reported again when the server sends the target again. */
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
  /** The release that ran before; kept on disk. */
  previous: DesiredRelease | null;
  work: Work | null;
  /** History of the signed releases that ran; absent before the first. */
  signed?: SignedHistory | undefined;
  /** Newest last. */
  finished: Finished[];
}

/** Returns the release that runs now, or is about to. */
export const runningRelease = ({ work, current }: AppState): DesiredRelease | null =>
  work !== null && (work.phase === "installing" || work.phase === "verifying") ? work.release : current;

export const FINISHED_MAX = 8;

export const emptyState = (app: string): AppState => ({ app, current: null, previous: null, work: null, finished: [] });

/** The desired state of an app. `unknown`: no desired state was ever received; `absent`: the desired state does not contain the app. */
export type DesiredAppState = DesiredApp | "absent" | "unknown";

export const namesTarget = (desired: DesiredAppState): desired is DesiredApp & { target_id: string } =>
  typeof desired === "object" && desired.target_id !== null;

/** Returns how the desired target ended on this robot, at its attempt or a later one; undefined if it has not ended. */
export function finishedTarget(state: AppState, desired: DesiredAppState): Finished | undefined {
  if (!namesTarget(desired)) return undefined;
  return state.finished.findLast((one) => one.target_id === desired.target_id && one.attempt >= desired.attempt);
}

/** Returns the fields `reason` and `message` of a report if they have values. The message is truncated to the protocol's limit. */
export function explain(reason: string | null | undefined, message: string | null | undefined): { reason?: string; message?: string } {
  return { ...(reason ? { reason } : {}), ...(message ? { message: message.slice(0, REPORT_MESSAGE_CHARACTERS_MAX) } : {}) };
}
