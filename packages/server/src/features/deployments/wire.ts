import type { ConfigDeployment, Deployment, DeploymentEvent, DeploymentTarget } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import { wholeRollout } from "./rollout/whole-rollout.ts";
import { type Counts, isRemoved } from "./state.ts";
import type { DeploymentRow, EventRow } from "./store/rows.ts";
import type { NamedTargetRow } from "./store/targets.ts";

type CountedRow = Pick<
  DeploymentRow,
  | "count_total"
  | "count_pending"
  | "count_queued"
  | "count_active"
  | "count_applied"
  | "count_failed"
  | "count_rolled_back"
  | "count_cancelled"
>;

export const countsOf = (row: CountedRow): Counts => ({
  total: row.count_total,
  pending: row.count_pending,
  queued: row.count_queued,
  active: row.count_active,
  applied: row.count_applied,
  failed: row.count_failed,
  rolled_back: row.count_rolled_back,
  cancelled: row.count_cancelled,
});

const commonToWire = (row: DeploymentRow) => ({
  target_kind: row.target_kind,
  robot_id: row.robot_id,
  fleet_id: row.fleet_id,
  status: row.status,
  reason: row.reason,
  counts: countsOf(row),
  created_by: row.created_by,
  cancel_requested_at: wireTime(row.cancel_requested_at),
  expires_at: wireTime(row.expires_at),
  started_at: wireTime(row.started_at),
  finished_at: wireTime(row.finished_at),
  created_at: wireTime(row.created_at),
  updated_at: wireTime(row.updated_at),
});

export function deploymentToWire(row: DeploymentRow, release: Deployment["release"] | undefined): Deployment {
  const { id, release_id, app } = row;
  if (release_id === null) throw new Error("a release deployment has no release");
  return {
    id,
    release_id,
    release: release ?? { id: release_id, tag: "", kind: "", app: app ?? "main" },
    scheduled_at: wireTime(row.scheduled_at),
    rollout: wholeRollout(row.rollout),
    wave: row.current_wave,
    wave_count: row.wave_count,
    paused_at: wireTime(row.paused_at),
    retry_of: row.retry_of,
    rollback_of: row.rollback_of,
    ...commonToWire(row),
  };
}

export const configDeploymentToWire = (row: DeploymentRow): ConfigDeployment => ({
  id: row.id,
  namespace: row.namespace,
  revision: row.revision ?? row.id,
  ...commonToWire(row),
});

export const targetToWire = (row: NamedTargetRow): DeploymentTarget => ({
  id: row.id,
  deployment_id: row.deployment_id,
  robot_id: row.robot_id,
  robot_name: row.robot_name,
  wave: row.wave,
  status: row.status,
  reason: row.reason,
  attempt: row.attempt,
  waiting_for: row.waiting_for,
  progress: row.progress,
  previous_release_id: row.previous_release_id,
  removed: isRemoved(row),
  created_at: wireTime(row.created_at),
  updated_at: wireTime(row.updated_at),
});

export const eventToWire = (row: EventRow): DeploymentEvent => ({ ...row, at: wireTime(row.at) });
