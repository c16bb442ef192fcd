import { Type } from "typebox";
import { Count, Entity, Id, Labels, type Of, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";
import { LABEL_VALUE_BYTES_MAX, LABELS_PER_SERIES_MAX, METRIC_NAME_BYTES_MAX } from "../link/series-chunk.ts";
import { SEVERITIES, TARGET_KINDS } from "../states.ts";
import { TargetSelector } from "./target-selector.ts";

/** Maximum waves of a rollout. The implicit last wave is not counted. */
export const WAVES_MAX = 50;
const ROBOTS_MAX = 1_000_000;
const SOAK_SECONDS_MAX = 30 * 86_400;
export const EXPIRES_DAYS_MAX = 365;

const Percent = Type.Number({ exclusiveMinimum: 0, maximum: 100 });
const Robots = Type.Integer({ minimum: 1, maximum: ROBOTS_MAX });
const GATES = ["auto", "manual"] as const;
export const ON_FAILURE = ["stop", "pause", "rollback"] as const;
const GroupBy = Type.String({
  maxLength: 80,
  pattern: "^(site|label:[A-Za-z0-9][A-Za-z0-9._/-]{0,62})$",
  description: "site, or label:KEY; absent: all robots of the deployment form one group",
});

export const METRIC_GATES_MAX = 5;
const MetricPercent = Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 });
export const MetricName = Type.String({
  maxLength: METRIC_NAME_BYTES_MAX,
  pattern: "^[a-zA-Z_][a-zA-Z0-9_]*$",
  description: "Name of a metric",
});
export const MetricLabels = Type.Record(
  Type.String({ pattern: "^[a-zA-Z_][a-zA-Z0-9_]{0,63}$" }),
  Type.String({ maxLength: LABEL_VALUE_BYTES_MAX }),
  { maxProperties: LABELS_PER_SERIES_MAX, description: "Only series with these labels" },
);
/** Exactly one of above, below, rise_percent and fall_percent is the bound. */
const MetricGate = Shape({
  name: MetricName,
  labels: Maybe(MetricLabels),
  aggregation: Type.Enum(["mean", "max"], { description: "Of the samples of a series during the soak time, or its last hour" }),
  above: Maybe(Type.Number({ description: "The gate fails above this value" })),
  below: Maybe(Type.Number({ description: "The gate fails below this value" })),
  rise_percent: Maybe(MetricPercent),
  fall_percent: Maybe(MetricPercent),
  tolerate_percent: Maybe(Type.Number({ minimum: 0, maximum: 100, default: 0, description: "Robots that may be outside of the bound" })),
});

/** Exactly one of percent, count and labels selects the robots. */
const Wave = Shape({
  percent: Maybe(Percent),
  count: Maybe(Robots),
  labels: Maybe(Labels),
  soak_seconds: Maybe(
    Type.Integer({
      minimum: 0,
      maximum: SOAK_SECONDS_MAX,
      default: 0,
      description: "Soak time before the next wave",
    }),
  ),
  gate: Maybe(Type.Enum([...GATES], { default: "auto", description: "manual: the next wave waits until the deployment is promoted" })),
  gate_incidents: Maybe(
    Type.Enum([...SEVERITIES], {
      description: "Pause the deployment if an updated robot of the wave joins an incident of at least this severity",
    }),
  ),
  gate_metrics: Maybe(
    Type.Array(MetricGate, {
      minItems: 1,
      maxItems: METRIC_GATES_MAX,
      description: "Pause the deployment if a metric of the wave's robots leaves its bound during the soak time",
    }),
  ),
});

const Window = Shape({
  cron: Type.String({ minLength: 1, maxLength: 200, description: "Start of the window: minute hour day month weekday" }),
  time_zone: Type.String({ minLength: 1, maxLength: 64, description: "IANA name, such as Europe/Berlin" }),
  duration_minutes: Type.Integer({ minimum: 1, maximum: 7 * 1_440 }),
});

/**
 * Maximum number of robots that may be unavailable, as a count or as a percentage of all targets. With `group_by`, it applies to each value
 * of a label separately.
 */
const MaxUnavailable = Shape({ count: Maybe(Robots), percent: Maybe(Percent), group_by: Maybe(GroupBy) });
const FailureThreshold = Shape({
  percent: Maybe(Type.Number({ minimum: 0, maximum: 100, description: "Percentage of the robots dispatched so far" })),
  count: Maybe(Type.Integer({ minimum: 0, maximum: ROBOTS_MAX })),
  min_decided: Maybe(
    Type.Integer({ minimum: 1, maximum: ROBOTS_MAX, default: 1, description: "Minimum completed robots before the threshold applies" }),
  ),
});
export const ATTEMPTS_DEFAULT = 3;
export const VERIFY_SECONDS_DEFAULT = 30;
const Attempts = Type.Integer({
  minimum: 1,
  maximum: 20,
  default: ATTEMPTS_DEFAULT,
  description: "Maximum attempts to deliver the release to a robot",
});
const VerifySeconds = Type.Integer({
  minimum: 0,
  maximum: 86_400,
  default: VERIFY_SECONDS_DEFAULT,
  description: "How long a robot verifies the new version before it counts as applied",
});

const rollout = {
  waves: Maybe(Type.Array(Wave, { minItems: 1, maxItems: WAVES_MAX, description: "In order; the remaining robots form the last wave" })),
  max_parallel: Maybe(Type.Integer({ minimum: 1, maximum: ROBOTS_MAX, description: "Maximum robots updating at once" })),
  max_unavailable: Maybe(MaxUnavailable),
  failure_threshold: Maybe(FailureThreshold),
  on_failure: Maybe(Type.Enum([...ON_FAILURE], { default: "stop", description: "Action when the threshold is exceeded" })),
  window: Maybe(Window),
  expires_at: Maybe(Time),
  max_attempts: Maybe(Attempts),
  verify_seconds: Maybe(VerifySeconds),
};

/** The rollout policy of a deployment; without one, all robots update concurrently. */
export const Rollout = Shape(rollout);
export type Rollout = Of<typeof Rollout>;

export const DryRun = Type.Boolean({ description: "true: return the plan without deploying" });
/** The body of a route that supports dry runs. */
export const RolloutOrTrial = Shape({ ...rollout, dry_run: Maybe(DryRun) });

/** The complete rollout policy, including defaults. A client can send it unchanged to create another deployment. */
export const WholeRollout = Shape({
  waves: Nullable(
    Type.Array(
      Shape({
        percent: Maybe(Type.Number()),
        count: Maybe(Count),
        labels: Maybe(Labels),
        soak_seconds: Count,
        gate: OneOf(GATES),
        gate_incidents: Maybe(OneOf(SEVERITIES)),
        gate_metrics: Maybe(Type.Array(MetricGate)),
      }),
    ),
  ),
  max_parallel: Nullable(Count),
  max_unavailable: Nullable(MaxUnavailable),
  failure_threshold: Nullable(Shape({ percent: Maybe(Type.Number()), count: Maybe(Count), min_decided: Count })),
  on_failure: OneOf(ON_FAILURE),
  window: Nullable(Window),
  expires_at: Nullable(Time),
  max_attempts: Count,
  verify_seconds: Count,
});
export type WholeRollout = Of<typeof WholeRollout>;

/** Number of robots of a deployment, or of one of its waves, by status. */
export const counters = {
  total: Count,
  pending: Count,
  queued: Count,
  active: Count,
  applied: Count,
  failed: Count,
  rolled_back: Count,
  cancelled: Count,
};

export const GATE_CHECKS = ["incidents", "metric"] as const;
/** `waiting`: nothing is out of bounds, but the data does not cover the whole soak time yet. */
export const GATE_CHECK_STATES = ["passing", "failing", "waiting"] as const;
/** A check of the current wave's gate, as it is now. */
export const GateCheck = Shape({
  kind: OneOf(GATE_CHECKS),
  state: OneOf(GATE_CHECK_STATES),
  message: Type.String(),
  /** The incident that makes the check fail. */
  incident_id: Nullable(Id),
});

export const WAVE_STATES = ["pending", "open", "soaking", "gate", "passed"] as const;

export const DeploymentWave = Entity("DeploymentWave", {
  wave: Count,
  /** The requested size of the wave: one of percent, count and labels. All three are null if the wave contains all remaining robots. */
  percent: Nullable(Type.Number()),
  count: Nullable(Count),
  labels: Nullable(Labels),
  soak_seconds: Count,
  gate: OneOf(GATES),
  gate_incidents: Nullable(OneOf(SEVERITIES)),
  gate_metrics: Type.Array(MetricGate),
  /** The checks of the gate; empty for waves that are not open, have passed, or have no such gate. */
  gate_checks: Type.Array(GateCheck),
  status: OneOf(WAVE_STATES),
  ...counters,
  offline: Type.Integer({ minimum: 0, description: "Queued robots that are offline and get the release when they connect" }),
  opened_at: Nullable(Time),
  passed_at: Nullable(Time),
  /** End of the wave's soak time; null before all its robots have finished. */
  soaks_until: Nullable(Time),
});
export type DeploymentWave = Of<typeof DeploymentWave>;

/** Maximum robots listed in a plan. The plan's counts include all robots. */
export const PLAN_ROBOTS_MAX = 10_000;

const ConfigPlanCounts = { total: Count, offline: Count };
const PlanCounts = { ...ConfigPlanCounts, incompatible: Count, already_installed: Count, bytes_to_send: Count };

const plan = {
  dry_run: Type.Literal(true),
  target_kind: OneOf(TARGET_KINDS),
  robot_id: Nullable(Id),
  fleet_id: Nullable(Id),
  target_selector: Nullable(TargetSelector),
  selection: Nullable(Type.String()),
  scheduled_at: Nullable(Time),
  expires_at: Time,
  rollout: WholeRollout,
};
const planned = { robot_id: Id, name: Type.String(), wave: Count, online: Type.Boolean() };

export const DeploymentPlan = Entity("DeploymentPlan", {
  ...plan,
  release_id: Id,
  release: Shape({ id: Id, tag: Type.String(), kind: Type.String(), app: Type.String() }),
  artifact_stored: Type.Boolean(),
  /** The current or next maintenance window. */
  window: Nullable(Shape({ opens_at: Time, closes_at: Time })),
  ...PlanCounts,
  waves: Type.Array(Shape({ wave: Count, ...PlanCounts })),
  /** The robots in rollout order, at most 10,000. */
  robots: Type.Array(Shape({ ...planned, incompatible: Type.Boolean(), already_installed: Type.Boolean(), bytes_to_send: Count })),
});
export type DeploymentPlan = Of<typeof DeploymentPlan>;

export const ConfigDeploymentPlan = Entity("ConfigDeploymentPlan", {
  ...plan,
  namespace: Nullable(Type.String()),
  ...ConfigPlanCounts,
  waves: Type.Array(Shape({ wave: Count, ...ConfigPlanCounts })),
  /** The robots in rollout order, at most 10,000. */
  robots: Type.Array(Shape(planned)),
});
export type ConfigDeploymentPlan = Of<typeof ConfigDeploymentPlan>;
