import type { Actor } from "@roamfleet/protocol/routes";
import type { DeploymentRow, TargetRow } from "../../../packages/server/src/features/deployments/store/rows.ts";
import type { Counts } from "../../../packages/server/src/features/deployments/state.ts";

/** The engine's row of a deployment, with the data of its events and waves. */
export type Deployment = DeploymentRow & { told: DeploymentRow["status"][]; events: number; waves: (Counts & { wave: number })[] };
export type Target = TargetRow & { dispatches: number };

/** The state of an app on a robot, as in the table `robot_app`. */
export interface App {
  app: string;
  current_release_id: string | null;
  previous_release_id: string | null;
  desired_release_id: string | null;
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  verify_seconds: number;
  last_target_id: string;
  last_order_number: number;
}

export interface RobotRow {
  id: string;
  fleet_id: string;
  labels: Record<string, string>;
  online: boolean;
  decommissioned: boolean;
  generation: number;
  outbox_id: string;
  outbox_seq: number;
  apps: Map<string, App>;
}

export interface Release {
  id: string;
  app: string;
  kind: string;
}

export const OPERATOR: Actor = { type: "org_token", id: "tok_simulated", name: "operator" };
export const ORG = "org_simulated";

export const noApp = (app: string): App => ({
  app,
  current_release_id: null,
  previous_release_id: null,
  desired_release_id: null,
  target_id: null,
  deployment_id: null,
  attempt: 0,
  verify_seconds: 30,
  last_target_id: "",
  last_order_number: 0,
});

export const noCounts = (): Counts => ({ total: 0, pending: 0, queued: 0, active: 0, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 });

/** Returns a new deployment. */
export function newDeployment(
  d: Pick<
    Deployment,
    "id" | "target_kind" | "robot_id" | "fleet_id" | "release_id" | "app" | "rollout" | "scheduled_at" | "status" | "order_number"
  > &
    Partial<Pick<Deployment, "retry_of" | "rollback_of">>,
  now: Date,
): Deployment {
  return {
    org_id: ORG,
    kind: "release",
    target_selector: null,
    namespace: null,
    revision: null,
    reason: null,
    fan_out_at: null,
    fan_out_done_at: null,
    fan_out_cursor: null,
    count_total: 0,
    count_pending: 0,
    count_queued: 0,
    count_active: 0,
    count_applied: 0,
    count_failed: 0,
    count_rolled_back: 0,
    count_cancelled: 0,
    reason_counts: {},
    event_seq: 1,
    count_dispatched: 0,
    wave_count: 1,
    current_wave: 0,
    wave_passed_at: null,
    promoted_wave: -1,
    wave_to_assign: null,
    step_at: null,
    failures_accepted: 0,
    gate_accepted_at: null,
    cancel_requested_at: null,
    cancel_mode: null,
    stop_requested_at: null,
    rollback_requested_at: null,
    paused_at: null,
    expires_at: null,
    retry_of: null,
    rollback_of: null,
    created_by: OPERATOR,
    authority: null,
    started_at: null,
    finished_at: null,
    created_at: now,
    updated_at: now,
    told: [d.status],
    events: 1,
    waves: [],
    ...d,
  };
}

export function newTarget(
  t: Pick<Target, "id" | "deployment_id" | "robot_id" | "subject" | "release_id" | "status" | "waiting_for">,
  now: Date,
): Target {
  return {
    org_id: ORG,
    kind: "release",
    wave: 0,
    reason: null,
    attempt: 0,
    progress: null,
    previous_release_id: null,
    dispatch_generation: null,
    deadline_at: null,
    not_before_at: null,
    reverting: false,
    created_at: now,
    updated_at: now,
    dispatches: 0,
    ...t,
  };
}
