import type { DeploymentStatus, Reason, TargetKind, TargetStatus } from "@roamfleet/protocol";
import type { Desired, Report } from "@roamfleet/protocol/link";
import type { Rollout } from "@roamfleet/protocol/routes";
import type { Condition } from "../../packages/server/src/features/deployments/explain/conditions.ts";
import type { Counts } from "../../packages/server/src/features/deployments/state.ts";

/** An operation of an operator. Fleets, robots and releases are given by their numbers in the schedule. */
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

/** `refused`: the operation is not possible in this state, and changed nothing. */
export type Answer = "done" | "refused";

/** The engine's loops, each of which can be run once. */
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

/** What happens to the server in an operation: it survives, or is killed before its commit is durable or right after. */
export type Fate = "lives" | "dies_before_commit" | "dies_after_commit";

/** The server was killed during the request: the client gets no response. */
export class Killed extends Error {
  /** For a planted fault: the response was sent before the commit was durable. */
  readonly answered: boolean;

  constructor(answered = false) {
    super("the server was killed");
    this.answered = answered;
  }
}

/** Faults that can be planted in a server. The simulation must find each of them. */
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

/** The initial state of a schedule. */
export interface Setting {
  /** Number of robots by fleet. */
  fleets: number[];
  /** App of each release. */
  releases: string[];
  /** Number of a release whose kind no robot can install. */
  incompatible_release: number | null;
}

export interface Names {
  robots: string[];
  fleets: string[];
  releases: string[];
}

/** A server with robots, as used by a schedule: either the pure one in memory, or the whole one on PostgreSQL. */
export interface SimulatedServer {
  setUp(setting: Setting): Promise<Names>;
  perform(operation: Operation, fate: Fate): Promise<Answer>;
  /** Connects a robot. Returns the last stored report, and the desired state if it is newer than the robot's. */
  connect(robot_id: string, hello: { outbox_id: string; generation: number }): Promise<{ acked_seq: number; desired: Desired | undefined }>;
  disconnect(robot_id: string): Promise<void>;
  /** Stores a report; resolves when it may be acknowledged. */
  report(robot_id: string, outbox_id: string, report: Report, fate: Fate): Promise<void>;
  /** Runs a loop once. Returns true if it should run again immediately. */
  turn(loop: Loop, fate: Fate): Promise<boolean>;
  /** Returns the desired states to send since the last call. */
  takePushes(): Promise<ReadonlyMap<string, Desired>>;
  /** Restarts the server; all state in memory is lost. */
  restart(): Promise<void>;
  look(): Promise<View>;
  /** Explains why a target has not moved. Absent on the whole server, whose explanations are tested by themselves. */
  explain?(target_id: string): Condition[];
  stop(): Promise<void>;
}

export interface DeploymentView {
  id: string;
  target_kind: TargetKind;
  status: DeploymentStatus;
  reason: Reason | null;
  counts: Counts;
  /** Whether all targets are written. */
  whole: boolean;
  cancel_requested: boolean;
  stopped: boolean;
  rollback_requested: boolean;
  scheduled_at: number | null;
  expires_at: number | null;
  /** The latest opened wave. */
  wave: number;
  waves: number;
  count_dispatched: number;
  rollout: Rollout;
  /** Statuses in its events, oldest first. */
  told: DeploymentStatus[];
  event_count: number;
  last_event_seq: number;
}

export interface TargetView {
  id: string;
  deployment_id: string;
  robot_id: string;
  app: string;
  /** Order number of its deployment. */
  order_number: number;
  release_id: string | null;
  previous_release_id: string | null;
  status: TargetStatus;
  reason: Reason | null;
  attempt: number;
  wave: number;
  deadline_at: number | null;
  reverting: boolean;
  /** Number of events about its dispatch. */
  dispatches: number;
}

export interface RobotView {
  id: string;
  removed: boolean;
  online: boolean;
  acked_seq: number;
  apps: { app: string; current_release_id: string | null; desired_release_id: string | null; target_id: string | null }[];
}

/** The server's complete state at one moment. */
export interface View {
  deployments: DeploymentView[];
  targets: TargetView[];
  robots: RobotView[];
}
