import { Type } from "typebox";
import { Count, Id, Labels, Maybe, Nullable, named, type Of, OneOf, Shape, Time } from "./shapes.ts";

/** Waves of one rollout, without the implicit last one. */
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
  description: "site, or label:KEY; absent: all robots of the deployment are one group",
});

/** Exactly one of percent, count and labels says who is in it. */
const Wave = Shape({
  percent: Maybe(Percent),
  count: Maybe(Robots),
  labels: Maybe(Labels),
  soak_seconds: Maybe(
    Type.Integer({
      minimum: 0,
      maximum: SOAK_SECONDS_MAX,
      default: 0,
      description: "How long its robots run the release before the next wave",
    }),
  ),
  gate: Maybe(
    Type.Enum([...GATES], { default: "auto", description: "manual: the next wave waits until somebody promotes the deployment" }),
  ),
});

const Window = Shape({
  cron: Type.String({ minLength: 1, maxLength: 200, description: "When it opens: minute hour day month weekday" }),
  time_zone: Type.String({ minLength: 1, maxLength: 64, description: "IANA name, such as Europe/Berlin" }),
  duration_minutes: Type.Integer({ minimum: 1, maximum: 7 * 1_440 }),
});

/** Either a number of robots or a part of them. */
const MaxUnavailable = Shape({ count: Maybe(Robots), percent: Maybe(Percent), group_by: Maybe(GroupBy) });
const FailureThreshold = Shape({
  percent: Maybe(Type.Number({ minimum: 0, maximum: 100, description: "Of the robots that it was dispatched to so far" })),
  count: Maybe(Type.Integer({ minimum: 0, maximum: ROBOTS_MAX })),
  min_decided: Maybe(
    Type.Integer({ minimum: 1, maximum: ROBOTS_MAX, default: 1, description: "Robots that must have ended before it is looked at" }),
  ),
});
export const ATTEMPTS_DEFAULT = 3;
export const VERIFY_SECONDS_DEFAULT = 30;
const Attempts = Type.Integer({
  minimum: 1,
  maximum: 20,
  default: ATTEMPTS_DEFAULT,
  description: "Tries when the release does not reach a robot",
});
const VerifySeconds = Type.Integer({
  minimum: 0,
  maximum: 86_400,
  default: VERIFY_SECONDS_DEFAULT,
  description: "How long a robot watches the new version before it counts as applied",
});

const rollout = {
  waves: Maybe(
    Type.Array(Wave, { minItems: 1, maxItems: WAVES_MAX, description: "One after the other; who is in none of them comes last" }),
  ),
  max_parallel: Maybe(Type.Integer({ minimum: 1, maximum: ROBOTS_MAX, description: "Robots that are at it at the same time" })),
  max_unavailable: Maybe(MaxUnavailable),
  failure_threshold: Maybe(FailureThreshold),
  on_failure: Maybe(Type.Enum([...ON_FAILURE], { default: "stop", description: "What follows when the threshold is exceeded" })),
  window: Maybe(Window),
  expires_at: Maybe(Time),
  max_attempts: Maybe(Attempts),
  verify_seconds: Maybe(VerifySeconds),
};

/** How a deployment reaches its robots; without any of it all go at once. */
export const Rollout = Shape(rollout);
export type Rollout = Of<typeof Rollout>;

export const DryRun = Type.Boolean({ description: "true: answer the plan and do nothing" });
/** The same where it may say that it is only tried. */
export const RolloutOrTrial = Shape({ ...rollout, dry_run: Maybe(DryRun) });

/** The whole policy, with what nobody said. It can be sent as it is, for another deployment. */
export const WholeRollout = Shape({
  waves: Nullable(
    Type.Array(
      Shape({
        percent: Maybe(Type.Number()),
        count: Maybe(Count),
        labels: Maybe(Labels),
        soak_seconds: Count,
        gate: OneOf(GATES),
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

/** Robots of a deployment, or of one of its waves, by how far they are. */
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

export const WAVE_STATES = ["pending", "open", "soaking", "gate", "passed"] as const;

export const DeploymentWave = named(
  "DeploymentWave",
  Shape({
    wave: Count,
    /** What it was asked for by; all null: the robots of no other wave. */
    percent: Nullable(Type.Number()),
    count: Nullable(Count),
    labels: Nullable(Labels),
    soak_seconds: Count,
    gate: OneOf(GATES),
    status: OneOf(WAVE_STATES),
    ...counters,
    opened_at: Nullable(Time),
    passed_at: Nullable(Time),
    /** When its soak time ends; null before it has passed. */
    soaks_until: Nullable(Time),
  }),
);
export type DeploymentWave = Of<typeof DeploymentWave>;

/** Robots that a plan names; its counts are of all. */
export const PLAN_ROBOTS_MAX = 10_000;

const PlanCounts = {
  total: Count,
  offline: Count,
  incompatible: Count,
  already_installed: Count,
  bytes_to_send: Count,
};

export const DeploymentPlan = named(
  "DeploymentPlan",
  Shape({
    dry_run: Type.Literal(true),
    target_kind: OneOf(["robot", "fleet"]),
    robot_id: Nullable(Id),
    fleet_id: Nullable(Id),
    release_id: Id,
    release: Shape({ id: Id, tag: Type.String(), kind: Type.String(), app: Type.String() }),
    artifact_stored: Type.Boolean(),
    scheduled_at: Nullable(Time),
    expires_at: Time,
    rollout: WholeRollout,
    /** The window that is open, or the next. */
    window: Nullable(Shape({ opens_at: Time, closes_at: Time })),
    ...PlanCounts,
    waves: Type.Array(Shape({ wave: Count, ...PlanCounts })),
    /** In the order in which they go, at most 10,000. */
    robots: Type.Array(
      Shape({
        robot_id: Id,
        name: Type.String(),
        wave: Count,
        online: Type.Boolean(),
        incompatible: Type.Boolean(),
        already_installed: Type.Boolean(),
        bytes_to_send: Count,
      }),
    ),
  }),
);
export type DeploymentPlan = Of<typeof DeploymentPlan>;
