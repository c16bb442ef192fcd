import { Type } from "typebox";
import { CONDITIONS, DEPLOYMENT_STATUSES, EXPLAINED_STATES, TARGET_KINDS, TARGET_STATUSES, WAITING_FOR } from "../states.ts";
import {
  ATTEMPTS_DEFAULT,
  counters,
  DeploymentPlan,
  DeploymentWave,
  DryRun,
  Rollout,
  RolloutOrTrial,
  VERIFY_SECONDS_DEFAULT,
  WholeRollout,
} from "./rollout.ts";
import {
  Actor,
  Count,
  DataOf,
  defineRoutes,
  Entity,
  Id,
  Json,
  ListOf,
  named,
  type Of,
  page,
  stamps,
  Time,
  withoutDefaults,
  withoutTargetKind,
} from "./route.ts";
import { TargetSelector } from "./target-selector.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

export const Counts = named("Counts", Shape(counters));

const TargetKind = OneOf(TARGET_KINDS);

const common = {
  target_kind: TargetKind,
  robot_id: Nullable(Id),
  fleet_id: Nullable(Id),
  /** Set if `target_kind` is `selection`. */
  target_selector: Nullable(TargetSelector),
  /** The selection in words, such as `robots of site Hall A with line=3`; null if `target_selector` is. */
  selection: Nullable(Type.String()),
  status: OneOf(DEPLOYMENT_STATUSES),
  reason: Nullable(Type.String()),
  counts: Counts,
  scheduled_at: Nullable(Time),
  rollout: WholeRollout,
  /** Index of the highest started wave, counted from 0. */
  wave: Count,
  wave_count: Count,
  awaiting_promotion: Type.Boolean({ description: "Whether it is in progress and its newest wave waits for a promotion" }),
  paused_at: Nullable(Time),
  created_by: Actor,
  cancel_requested_at: Nullable(Time),
  expires_at: Nullable(Time),
  started_at: Nullable(Time),
  finished_at: Nullable(Time),
  ...stamps,
};

export const Deployment = Entity("Deployment", {
  id: Id,
  release_id: Id,
  release: Shape({ id: Id, tag: Type.String(), kind: Type.String(), app: Type.String() }),
  retry_of: Nullable(Id),
  rollback_of: Nullable(Id),
  ...common,
});
export type Deployment = Of<typeof Deployment>;

export const ConfigDeployment = Entity("ConfigDeployment", {
  id: Id,
  namespace: Nullable(Type.String()),
  revision: Type.String(),
  ...common,
});
export type ConfigDeployment = Of<typeof ConfigDeployment>;

export const DeploymentTarget = Entity("DeploymentTarget", {
  id: Id,
  deployment_id: Id,
  robot_id: Id,
  robot_name: Type.String(),
  wave: Count,
  status: OneOf(TARGET_STATUSES),
  reason: Nullable(Type.String()),
  attempt: Count,
  waiting_for: Nullable(OneOf(WAITING_FOR)),
  progress: Nullable(Shape({ bytes_done: Count, bytes_total: Count })),
  previous_release_id: Nullable(Id),
  /** Whether the target ended without a release, so that the app does not run on the robot. */
  removed: Type.Boolean(),
  ...stamps,
});
export type DeploymentTarget = Of<typeof DeploymentTarget>;

export const DeploymentEvent = Entity("DeploymentEvent", {
  id: Id,
  seq: Count,
  at: Time,
  kind: Type.String(),
  status: OneOf(DEPLOYMENT_STATUSES),
  target_status: Nullable(OneOf(TARGET_STATUSES)),
  robot_id: Nullable(Id),
  reason: Nullable(Type.String()),
  message: Type.String(),
  actor: Actor,
  data: Type.Record(Type.String(), Json),
});
export type DeploymentEvent = Of<typeof DeploymentEvent>;

export const Condition = Entity("Condition", {
  name: OneOf(CONDITIONS),
  met: Nullable(Type.Boolean({ description: "null: not known yet" })),
  message: Type.String(),
  until: Nullable({ ...Time, description: "When an unmet condition is met without a change" }),
  change: Nullable(
    Shape({
      message: Type.String({ description: "The smallest change that meets the condition" }),
      command: Nullable(Type.String({ description: "The command that makes the change" })),
    }),
  ),
});

export const Explanation = Entity("Explanation", {
  robot_id: Id,
  robot_name: Type.String(),
  deployment_id: Nullable(Id),
  release: Nullable(Shape({ id: Id, tag: Type.String(), app: Type.String() })),
  state: OneOf(EXPLAINED_STATES),
  summary: Type.String(),
  conditions: Type.Array(Condition),
});
export type Explanation = Of<typeof Explanation>;

export const eventQuery = Shape({
  ...page,
  include: Maybe(OneOf(["targets"])),
  robot_id: Maybe(Id),
  after_seq: Maybe(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
});

export const deploymentFilters = {
  status: Maybe(OneOf(DEPLOYMENT_STATUSES)),
  robot_id: Maybe({ ...Id, description: "Deployments to this robot, and to selections that include it. Those to its fleet have fleet_id" }),
  fleet_id: Maybe(Id),
  cause: Maybe(
    OneOf(
      ["request", "follow"],
      "request: created by a user or token; follow: created automatically because the robot follows its fleet. Default: both",
    ),
  ),
  since: Maybe(Time),
  until: Maybe(Time),
};

export const targetFilters = {
  status: Maybe(OneOf(TARGET_STATUSES)),
  robot_id: Maybe(Id),
  q: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "Text that the robot's name contains, ignoring case" })),
};

export const waveFilter = {
  wave: Maybe(Type.Integer({ minimum: 0, maximum: 1_000, description: "Number of the wave; the first is 0" })),
};

export const target = {
  robot_id: Maybe(Id),
  fleet_id: Maybe(Id),
  target_kind: Maybe(TargetKind),
  target_id: Maybe(Id),
  target_selector: Maybe(TargetSelector),
};

/** When and how the robots of a new deployment are updated. */
export const start = {
  scheduled_at: Maybe(Time),
  rollout: Maybe(RolloutOrTrial),
  dry_run: Maybe(DryRun),
};

const withoutRolloutDefaults = withoutDefaults({
  on_failure: "stop",
  max_attempts: ATTEMPTS_DEFAULT,
  verify_seconds: VERIFY_SECONDS_DEFAULT,
  dry_run: false,
});

/**
 * Normalizes the body of a new deployment, to compare requests with the same Idempotency-Key. A policy with only default values equals no
 * policy. In all other policies, the validation has already filled in the defaults.
 */
export function sameDeployment(body: Record<string, unknown>): Record<string, unknown> {
  const { rollout, dry_run, ...rest } = withoutTargetKind(body);
  const kept = { ...rest, ...(dry_run === true ? { dry_run } : {}) };
  if (rollout === undefined) return kept;
  const { dry_run: trial, ...policy } = rollout as Record<string, unknown>;
  if (Object.keys(withoutRolloutDefaults(policy)).length === 0 && trial !== true) return kept;
  return { ...kept, rollout: trial === true ? rollout : policy };
}

export const deploymentRoutes = defineRoutes("Deployments", {
  explainRobot: {
    summary: "Explain why a robot has not installed the release of a deployment, and which changes would help",
    query: Shape({ deployment_id: Maybe({ ...Id, description: "Default: the newest deployment that concerns the robot" }) }),
    responses: { 200: DataOf(Explanation) },
  },
  listDeployments: {
    summary: "List deployments",
    query: Shape({ ...page, ...deploymentFilters, release_id: Maybe(Id) }),
    responses: { 200: ListOf(Deployment) },
    errors: [404],
  },
  createDeployment: {
    summary: "Deploy a release to a robot, a fleet or selected robots, immediately or at a scheduled time",
    body: Shape({
      release: Type.String({ description: "ID or tag of the release" }),
      ...target,
      ...start,
    }),
    aliases: { release_id: "release", release_tag: "release" },
    sameBody: sameDeployment,
    idempotency: "required",
    dry_run: DataOf(DeploymentPlan),
    responses: { 201: DataOf(Deployment) },
    errors: [404, 409],
  },
  getDeployment: {
    summary: "Get a deployment",
    responses: { 200: DataOf(Deployment) },
  },
  listDeploymentEvents: {
    summary: "List the events of a deployment, oldest first; events of its targets with include=targets or robot_id",
    query: eventQuery,
    responses: { 200: ListOf(DeploymentEvent) },
  },
  listDeploymentTargets: {
    summary: "List the robots of a deployment with their status",
    query: Shape({ ...page, ...targetFilters, ...waveFilter }),
    responses: { 200: ListOf(DeploymentTarget) },
  },
  listDeploymentWaves: {
    summary: "List the waves of a deployment in order, with their status",
    query: Shape({ ...page }),
    responses: { 200: ListOf(DeploymentWave) },
  },
  pauseDeployment: {
    summary: "Pause a deployment: in-progress robots finish; no new ones start",
    body: Shape({}),
    responses: { 200: DataOf(Deployment) },
    errors: [409],
  },
  resumeDeployment: {
    summary: "Resume a paused deployment; if it exceeded its failure threshold, it stops again at the next failure",
    body: Shape({}),
    responses: { 200: DataOf(Deployment) },
    errors: [409],
  },
  promoteDeployment: {
    summary: "Start the next wave of a deployment now, skipping the remaining soak time and a manual gate",
    body: Shape({}),
    responses: { 200: DataOf(Deployment) },
    errors: [409],
  },
  cancelDeployment: {
    summary: "Cancel a deployment: robots that have not started to install stop",
    body: Shape({
      mode: Maybe(
        Type.Enum(["finish", "rollback"], {
          default: "finish",
          description: "Action for robots that are installing: finish, or roll back afterwards",
        }),
      ),
    }),
    responses: { 202: DataOf(Deployment) },
    errors: [409],
  },
  retryDeployment: {
    summary: "Deploy again to the robots on which an earlier deployment failed or was rolled back",
    body: Shape({ rollout: Maybe(Rollout) }),
    responses: { 201: DataOf(Deployment) },
    errors: [409],
  },
  rollBackDeployment: {
    summary: "Roll back the robots of a deployment to their previous release; if it has ended, a new deployment is created",
    body: Shape({}),
    responses: { 201: DataOf(Deployment), 202: DataOf(Deployment) },
    errors: [409],
  },
});
