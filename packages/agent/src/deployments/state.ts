import type { DesiredApp, DesiredRelease } from "@roamfleet/protocol/link";
import type { SignedHistory } from "../signing/history.ts";

/** Where a piece of work stands; each name but `removing` is the status that is reported. */
export type Phase = "downloading" | "staged" | "installing" | "verifying" | "rolling_back" | "removing";

export interface Failure {
  reason: string;
  message: string;
}

/** The one thing that is being done to an app. */
export interface Work {
  /** null: nobody deploys, the robot is brought to what it should be. */
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  /** null: the app is taken off the robot. */
  release: DesiredRelease | null;
  verify_seconds: number;
  phase: Phase;
  /** How often this phase was begun, restarts of the agent included. */
  tries: number;
  /** Why it is being taken back. */
  failure: Failure | null;
}

export type FinalStatus = "applied" | "rolled_back" | "failed" | "cancelled";

/** How a piece of work ended: told again to whoever asks for it again. */
export interface Finished {
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  release_id: string | null;
  status: FinalStatus;
  reason: string | null;
  message: string | null;
  /** The report of it is in the outbox. */
  reported: boolean;
}

/** Everything about one app that must survive the agent. */
export interface AppState {
  app: string;
  /** What runs, or is to run again after a restart. */
  current: DesiredRelease | null;
  /** What ran before it: kept on disk. */
  previous: DesiredRelease | null;
  work: Work | null;
  /** Of the signed releases that ran; absent before the first. */
  signed?: SignedHistory | undefined;
  /** The latest last. */
  finished: Finished[];
}

export const FINISHED_MAX = 8;

export const emptyState = (app: string): AppState => ({ app, current: null, previous: null, work: null, finished: [] });

/** What the server wants of an app; `unknown` until the first desired state ever, `absent` when it says nothing of the app. */
export type Wish = DesiredApp | "absent" | "unknown";

export const namesTarget = (wish: Wish): wish is DesiredApp & { target_id: string } => typeof wish === "object" && wish.target_id !== null;

/** How the target that this wish names ended here, if it did, at this or a later attempt. */
export function finishedTarget(state: AppState, wish: Wish): Finished | undefined {
  if (!namesTarget(wish)) return undefined;
  return state.finished.findLast((one) => one.target_id === wish.target_id && one.attempt >= wish.attempt);
}
