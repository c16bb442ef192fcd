import type { DeploymentStatus, Reason, TargetStatus } from "@roamfleet/protocol";
import type { Desired, Report } from "@roamfleet/protocol/link";
import type { Rollout } from "@roamfleet/protocol/routes";
import type { Counts } from "../../packages/server/src/features/deployments/state.ts";

/** What an operator asks for. Fleets, robots and releases are named by their numbers within the schedule. */
export type Operation =
  | {
      type: "create";
      release: number;
      robot: number | null;
      fleet: number | null;
      scheduled_in_ms: number | null;
      rollout: Rollout;
    }
  | { type: "cancel"; deployment_id: string; mode: "finish" | "rollback" }
  | { type: "pause" | "resume" | "promote" | "retry" | "rollback"; deployment_id: string }
  | { type: "remove_robot"; robot: number };
export type OperationType = Operation["type"];

/** `refused`: the operation cannot be had in this state, and nothing has changed. */
export type Answer = "done" | "refused";

/** The engine's loops, one turn of which can be asked for. */
export const LOOPS = [
  "schedule",
  "fan_out",
  "rollouts",
  "dispatch",
  "cancellations",
  "rollbacks",
  "deadlines",
  "expiry",
  "repair",
] as const;
export type Loop = (typeof LOOPS)[number];

/** What becomes of the server in the middle of a piece of work: killed before its commit is durable, or right after. */
export type Fate = "lives" | "dies_before_commit" | "dies_after_commit";

/** The server was killed during the request: the client gets no response. */
export class Killed extends Error {
  /** A fault that can be planted: the answer was sent before the work was durable. */
  readonly answered: boolean;

  constructor(answered = false) {
    super("the server was killed");
    this.answered = answered;
  }
}

/** Faults that a server can be given on purpose: a simulation that does not find each of them proves nothing. */
export const PLANTS = [
  "no_compare_and_set",
  "ack_before_commit",
  "attempt_ignored",
  "timer_lost_at_restart",
  "double_dispatch",
  "superseding_at_creation",
  "counter_drift",
  "late_report_accepted",
] as const;
export type Plant = (typeof PLANTS)[number];

/** Where everything starts. */
export interface Setting {
  /** Robots by fleet. */
  fleets: number[];
  /** The app of each release. */
  releases: string[];
  /** Kinds that no robot can install make a release that is incompatible everywhere. */
  incompatible_release: number | null;
}

export interface Names {
  robots: string[];
  fleets: string[];
  releases: string[];
}

/** A server with robots, as a schedule drives it: the pure one in memory, or the whole one on PostgreSQL. */
export interface SimulatedServer {
  setUp(setting: Setting): Promise<Names>;
  perform(operation: Operation, fate: Fate): Promise<Answer>;
  /** A robot connects; answers how far its reports have been taken and what it is to look like, if that is new to it. */
  connect(robot_id: string, hello: { outbox_id: string; generation: number }): Promise<{ acked_seq: number; desired: Desired | undefined }>;
  disconnect(robot_id: string): Promise<void>;
  /** Takes a report; resolves when it may be acknowledged. */
  report(robot_id: string, outbox_id: string, report: Report, fate: Fate): Promise<void>;
  /** One turn of a loop. Answers true when it wants another at once. */
  turn(loop: Loop, fate: Fate): Promise<boolean>;
  /** What robots are to be told since the last time it was asked. */
  takePushes(): Promise<ReadonlyMap<string, Desired>>;
  /** Everything that was only in memory is gone, and the server starts again. */
  restart(): Promise<void>;
  look(): Promise<View>;
  stop(): Promise<void>;
}

export interface DeploymentView {
  id: string;
  target_kind: "robot" | "fleet";
  status: DeploymentStatus;
  reason: Reason | null;
  counts: Counts;
  /** Every target is written. */
  whole: boolean;
  cancel_requested: boolean;
  stopped: boolean;
  rollback_requested: boolean;
  scheduled_at: number | null;
  expires_at: number | null;
  /** The highest wave that was opened. */
  wave: number;
  waves: number;
  count_dispatched: number;
  rollout: Rollout;
  /** Statuses that its own events have told of, oldest first. */
  told: DeploymentStatus[];
  event_count: number;
  last_event_seq: number;
}

export interface TargetView {
  id: string;
  deployment_id: string;
  robot_id: string;
  app: string;
  /** Of its deployment, in the order of all. */
  order_number: number;
  release_id: string | null;
  previous_release_id: string | null;
  status: TargetStatus;
  reason: Reason | null;
  attempt: number;
  wave: number;
  deadline_at: number | null;
  reverting: boolean;
  /** How often an event told that it was dispatched. */
  dispatches: number;
}

export interface RobotView {
  id: string;
  removed: boolean;
  online: boolean;
  acked_seq: number;
  apps: { app: string; current_release_id: string | null; desired_release_id: string | null; target_id: string | null }[];
}

/** The server's whole truth at one moment. */
export interface View {
  deployments: DeploymentView[];
  targets: TargetView[];
  robots: RobotView[];
}
