import type { DeploymentStatus, Reason, TargetKind, TargetStatus, WaitingFor } from "@roamfleet/protocol";
import type { Actor, Rollout, TargetSelector } from "@roamfleet/protocol/routes";
import type { MetricChecks } from "../rollout/gate-checks.ts";
import type { Authority } from "../../access/index.ts";
import {
  bigint,
  bool,
  int,
  jsonb,
  nullable,
  row,
  type RowOf,
  sql,
  type Statement,
  text,
  textOf,
  timestamptz,
} from "../../../kernel/sql.ts";
import { type Caller, seesWholeOrg, visible } from "../../../kernel/caller.ts";

/** Ended targets of a deployment by status and reason; those without a reason are counted under "". Zeros are left out. */
export type ReasonCounts = Readonly<Partial<Record<TargetStatus, Readonly<Partial<Record<Reason | "", number>>>>>>;

export type DeploymentKind = "release" | "config";

export const deploymentRow = row({
  org_id: text,
  id: text,
  kind: textOf<DeploymentKind>(),
  target_kind: textOf<TargetKind>(),
  robot_id: nullable(text),
  fleet_id: nullable(text),
  target_selector: nullable(jsonb<TargetSelector>()),
  release_id: nullable(text),
  app: nullable(text),
  namespace: nullable(text),
  revision: nullable(text),
  rollout: jsonb<Rollout>(),
  scheduled_at: nullable(timestamptz),
  status: textOf<DeploymentStatus>(),
  reason: nullable(textOf<Reason>()),
  fan_out_at: nullable(timestamptz),
  fan_out_done_at: nullable(timestamptz),
  fan_out_cursor: nullable(text),
  count_total: int,
  count_pending: int,
  count_queued: int,
  count_active: int,
  count_applied: int,
  count_failed: int,
  count_rolled_back: int,
  count_cancelled: int,
  reason_counts: jsonb<ReasonCounts>(),
  event_seq: bigint,
  count_dispatched: int,
  wave_count: int,
  current_wave: int,
  wave_passed_at: nullable(timestamptz),
  promoted_wave: int,
  wave_to_assign: nullable(int),
  step_at: nullable(timestamptz),
  failures_accepted: int,
  gate_accepted_at: nullable(timestamptz),
  cancel_requested_at: nullable(timestamptz),
  cancel_mode: nullable(textOf<"finish" | "rollback">()),
  stop_requested_at: nullable(timestamptz),
  rollback_requested_at: nullable(timestamptz),
  paused_at: nullable(timestamptz),
  expires_at: nullable(timestamptz),
  retry_of: nullable(text),
  rollback_of: nullable(text),
  created_by: jsonb<Actor>(),
  authority: nullable(jsonb<Authority>()),
  started_at: nullable(timestamptz),
  finished_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
  /** Decides which of two deployments is newer. Drawn from a sequence on creation, and again when a scheduled deployment starts. */
  order_number: bigint,
});
export type DeploymentRow = RowOf<typeof deploymentRow>;

export const targetRow = row({
  org_id: text,
  deployment_id: text,
  id: text,
  kind: textOf<DeploymentKind>(),
  robot_id: text,
  subject: text,
  release_id: nullable(text),
  wave: int,
  status: textOf<TargetStatus>(),
  reason: nullable(textOf<Reason>()),
  attempt: int,
  waiting_for: nullable(textOf<WaitingFor>()),
  progress: nullable(jsonb<{ bytes_done: number; bytes_total: number }>()),
  previous_release_id: nullable(text),
  dispatch_generation: nullable(bigint),
  deadline_at: nullable(timestamptz),
  not_before_at: nullable(timestamptz),
  reverting: bool,
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type TargetRow = RowOf<typeof targetRow>;

export const waveRow = row({
  wave: int,
  size: int,
  opened_at: nullable(timestamptz),
  passed_at: nullable(timestamptz),
  metric_checks: nullable(jsonb<MetricChecks>()),
  count_pending: int,
  count_queued: int,
  count_active: int,
  count_applied: int,
  count_failed: int,
  count_rolled_back: int,
  count_cancelled: int,
});
export type WaveRow = RowOf<typeof waveRow>;

export const eventRow = row({
  id: text,
  seq: bigint,
  at: timestamptz,
  kind: text,
  status: textOf<DeploymentStatus>(),
  target_status: nullable(textOf<TargetStatus>()),
  robot_id: nullable(text),
  reason: nullable(text),
  message: text,
  actor: jsonb<Actor>(),
  data: jsonb<Record<string, unknown>>(),
});
export type EventRow = RowOf<typeof eventRow>;

/** The value that is stored as the namespace if a config deployment is for all namespaces. */
export const ALL_NAMESPACES = "";

const EVERYTHING = sql``;

/**
 * Condition ` and …` that restricts deployments to robots and fleets that the caller may see. A selection is visible by the fleet, else the
 * site, that it names. A deployment to a deleted fleet, or a selection without a place, is visible only with access to the whole org.
 */
export const reachedDeployments = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and (exists (
        -- reads tables of other features: robot
        select from robot r where r.org_id = deployment.org_id and r.id = deployment.robot_id ${visible(caller, "r.site_id", "r.fleet_id")})
      or exists (
        -- reads tables of other features: fleet
        select from fleet f where f.org_id = deployment.org_id and f.id = coalesce(deployment.fleet_id, deployment.target_selector ->> 'fleet_id') ${visible(caller, "f.site_id", "f.id")})
      or exists (select from (select deployment.target_selector ->> 'site_id' as site_id, null::text as fleet_id) s
        where s.site_id is not null ${visible(caller, "s.site_id", "s.fleet_id")}))`;

/** Like `reachedDeployments`, but for targets, by the current site and fleet of their robots. */
export const reachedTargets = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and exists (
        -- reads tables of other features: robot
        select from robot r where r.org_id = deployment_target.org_id and r.id = deployment_target.robot_id ${visible(caller, "r.site_id", "r.fleet_id")})`;

/** Like `reachedDeployments`, but for events. Events of the deployment itself name no robot and stay visible. */
export const reachedEvents = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? EVERYTHING
    : sql` and (robot_id is null or exists (
        -- reads tables of other features: robot
        select from robot r where r.org_id = deployment_event.org_id and r.id = deployment_event.robot_id ${visible(caller, "r.site_id", "r.fleet_id")}))`;
