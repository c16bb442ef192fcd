import { VERSION_NUMBERS_PATTERN } from "../agent-version.ts";
import { Type } from "typebox";
import { LOG_LEVELS } from "../link/limits.ts";
import { HealthBody, Platform } from "../link/messages.ts";
import { CONFIG_STATES, HEALTH_STATES, RELEASE_STATES, ROBOT_STATUSES } from "../states.ts";
import {
  Actor,
  AppName,
  Count,
  DataOf,
  defineRoutes,
  Entity,
  Id,
  Json,
  Labels,
  ListOf,
  Name,
  type Of,
  page,
  stamps,
  Time,
} from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

const ReleaseRef = Entity("ReleaseRef", { id: Id, tag: Type.String() });

const ReleaseState = (description?: string) => OneOf(RELEASE_STATES, description);

export const RobotApp = Entity("RobotApp", {
  app: AppName,
  current: Nullable(ReleaseRef),
  desired: Nullable(ReleaseRef),
  status: Type.String(),
  release_state: ReleaseState(),
});

export const Robot = Entity("Robot", {
  id: Id,
  name: Type.String(),
  site_id: Id,
  fleet_id: Id,
  status: OneOf(ROBOT_STATUSES),
  last_seen_at: Nullable(Time),
  health: OneOf(HEALTH_STATES, "As last reported by the robot; unknown: never reported"),
  failing: Type.Array(Type.String(), { description: "Descriptions of failing checks" }),
  held_at: Nullable(Time),
  approval: OneOf(["approved", "pending"], "pending: the robot gets no secrets until an admin approves it"),
  labels: Type.Record(Type.String(), Type.String()),
  agent_version: Nullable(Type.String()),
  platform: Nullable(Platform),
  apps: Type.Array(RobotApp),
  current_release: Nullable(ReleaseRef),
  desired_release: Nullable(ReleaseRef),
  release_state: ReleaseState("The worst state of its apps: failed, behind, current, unknown"),
  config_state: OneOf(CONFIG_STATES),
  public_key_fingerprint: Type.String(),
  public_key_type: OneOf(
    ["ed25519", "ecdsa_p256"],
    "ed25519: the agent keeps the private key in a file. ecdsa_p256: in the robot's TPM; the server cannot verify that",
  ),
  ...stamps,
});
export type Robot = Of<typeof Robot>;

export const HealthSnapshot = Entity("HealthSnapshot", { robot_id: Id, received_at: Time, ...HealthBody.properties });
export type HealthSnapshot = Of<typeof HealthSnapshot>;

export const LogRecord = Entity("LogRecord", {
  robot_id: Id,
  seq: Count,
  at: Time,
  received_at: Time,
  level: OneOf(LOG_LEVELS),
  source: Type.String(),
  message: Type.String(),
  fields: Type.Record(Type.String(), Json),
});
export type LogRecord = Of<typeof LogRecord>;

export const logFilter = {
  since: Maybe(Time),
  until: Maybe(Time),
  level: Maybe(OneOf(LOG_LEVELS)),
  source: Maybe(Type.String({ minLength: 1, maxLength: 200 })),
  q: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "Text that the message contains, ignoring case" })),
};
/** Query of a robot's log. Without filters, the response contains the latest 200 records. */
export const logQuery = Shape({ ...page, ...logFilter });
export const logExportQuery = Shape(logFilter);

export const TimelineEntry = Entity("TimelineEntry", {
  id: Id,
  at: Time,
  kind: Type.String(),
  actor: Actor,
  summary: Type.String(),
  data: Type.Record(Type.String(), Json),
});
export type TimelineEntry = Of<typeof TimelineEntry>;

export const EffectiveValue = Entity("EffectiveValue", {
  namespace: Type.String(),
  key: Type.String(),
  value: Json,
  secret: Type.Boolean(),
  scope: OneOf(["org", "site", "fleet", "robot"]),
  scope_id: Nullable(Type.String()),
  config_id: Id,
  version: Count,
});
export const RobotConfig = Entity("RobotConfig", {
  robot_id: Id,
  config_state: OneOf(CONFIG_STATES),
  effective: Type.Array(EffectiveValue),
  namespaces: Type.Array(
    Shape({
      namespace: Type.String(),
      deployed_version: Nullable(Count),
      deployed_sha256: Nullable(Type.String()),
      reported_sha256: Nullable(Type.String()),
      state: OneOf(CONFIG_STATES),
    }),
  ),
});
export type RobotConfig = Of<typeof RobotConfig>;

const LabelMatch = Type.String({ minLength: 3, maxLength: 300, pattern: "^[^:]+:.*$" });
/** Query parameter that selects robots by their labels. */
export const LabelFilter = Type.Union([LabelMatch, Type.Array(LabelMatch, { minItems: 1, maxItems: 16 })], {
  description: "KEY:VALUE; if repeated, all must match",
});

/** A sample of a robot's health, or the average of several. */
export const HealthPoint = Entity("HealthPoint", {
  at: Time,
  cpu_percent: Type.Number(),
  load_1m: Type.Number(),
  memory_percent: Nullable(Type.Number()),
  temperature_celsius: Nullable(Type.Number()),
  battery_percent: Nullable(Type.Number()),
  disks: Type.Array(Shape({ mount: Type.String(), percent: Type.Number() })),
});
export type HealthPoint = Of<typeof HealthPoint>;

export const HEALTH_POINTS_MAX = 2_000;

const Values = Type.Array(Nullable(Type.Number()), { description: "A value for each interval; null: no samples" });

const MetricSeries = Entity("MetricSeries", {
  name: Type.String(),
  labels: Type.Record(Type.String(), Type.String()),
  mean: Values,
  min: Values,
  max: Values,
});

export const RobotMetrics = Entity("RobotMetrics", {
  robot_id: Id,
  since: Time,
  until: Time,
  step_seconds: Type.Number({ description: "Length of an interval. The first begins at `since`" }),
  series: Type.Array(MetricSeries),
  omitted_series: Type.Integer({ description: "Matching series that are not in the answer" }),
});
export type RobotMetrics = Of<typeof RobotMetrics>;

export const METRIC_POINTS_MAX = 1_000;

export const BULK_ROBOTS_MAX = 1_000;

/** The outcome of a bulk change for one robot. */
export const BulkOutcome = Entity("BulkOutcome", {
  robot_id: Id,
  outcome: OneOf(["changed", "unchanged", "not_found", "forbidden", "conflict"]),
  message: Nullable(Type.String({ description: "Why it was not changed" })),
});
export type BulkOutcome = Of<typeof BulkOutcome>;

export const robotRoutes = defineRoutes("Robots", {
  listRobots: {
    summary: "List robots",
    query: Shape({
      ...page,
      status: Maybe(OneOf(ROBOT_STATUSES)),
      fleet_id: Maybe(Id),
      site_id: Maybe(Id),
      label: Maybe(LabelFilter),
      health: Maybe(OneOf(HEALTH_STATES)),
      release_id: Maybe({ ...Id, description: "Robots that run this release (id or tag)" }),
      app: Maybe({ ...AppName, description: "Robots with this app; release_state then applies to it" }),
      release_state: Maybe(
        ReleaseState("State of the app `app`. Without `app`: failed or behind if any app is, current if no app is failed or behind"),
      ),
      config_state: Maybe(OneOf(CONFIG_STATES)),
      approval: Maybe(OneOf(["approved", "pending"])),
      agent_older_than: Maybe(
        Type.String({ pattern: VERSION_NUMBERS_PATTERN, description: "Robots whose agent has an older version than this, such as 1.2.3" }),
      ),
      q: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "Text that the name contains, ignoring case" })),
      sort: Maybe(OneOf(["newest", "name"], "Newest first, or by name in byte order")),
      fields: Maybe(
        Type.String({ minLength: 1, maxLength: 500, description: "Names of fields, separated by commas; robots then have only these" }),
      ),
    }),
    responses: { 200: ListOf(Robot) },
    errors: [404],
  },
  bulkUpdateRobots: {
    summary: "Label or move many robots; returns the outcome for each",
    body: Shape({
      robot_ids: Type.Array(Id, { minItems: 1, maxItems: BULK_ROBOTS_MAX }),
      labels: Maybe(Shape({ set: Maybe(Labels), remove: Maybe(Type.Array(Type.String({ maxLength: 63 }), { maxItems: 64 })) })),
      fleet_id: Maybe(Id),
    }),
    responses: { 200: Shape({ items: Type.Array(BulkOutcome) }) },
    errors: [404],
  },
  getRobot: {
    summary: "Get a robot",
    responses: { 200: DataOf(Robot) },
  },
  releaseHold: {
    summary: "Unblock a robot that is quarantined because several machines use its identity; no change if it is not quarantined",
    responses: { 200: DataOf(Robot) },
    errors: [409],
  },
  approveRobot: {
    summary: "Approve a robot, so that it gets secret config values and registry logins; no change if already approved",
    responses: { 200: DataOf(Robot) },
    errors: [409],
  },
  updateRobot: {
    summary: "Rename, relabel or move a robot",
    body: Shape({ name: Maybe(Name), labels: Maybe(Labels), fleet_id: Maybe(Id) }),
    responses: { 200: DataOf(Robot) },
    errors: [409],
  },
  deleteRobot: {
    summary: "Decommission a robot permanently: its identity is refused",
    responses: { 200: DataOf(Robot) },
  },
  getRobotHealth: {
    summary: "Get the latest health snapshot",
    responses: { 200: DataOf(HealthSnapshot) },
  },
  getRobotHealthHistory: {
    summary: "Get health over time, oldest first: one point per minute, or averages over longer intervals if that exceeds `points`",
    query: Shape({
      since: Maybe({ ...Time, description: "Default: an hour before `until`" }),
      until: Maybe({ ...Time, description: "Default: now" }),
      points: Maybe(Type.Integer({ minimum: 2, maximum: HEALTH_POINTS_MAX, description: "Maximum number of points; default: 300" })),
    }),
    responses: { 200: Shape({ items: Type.Array(HealthPoint) }) },
  },
  getRobotMetrics: {
    summary: "Get metrics of a robot over time: for each series and interval the average, lowest and highest sample",
    query: Shape({
      names: Maybe(
        Type.String({
          minLength: 1,
          maxLength: 7_000,
          description: "Names of metrics, separated by commas. Default: all; at most 100 series are returned",
        }),
      ),
      since: Maybe({ ...Time, description: "Default: an hour before `until`" }),
      until: Maybe({ ...Time, description: "Default: now" }),
      points: Maybe(Type.Integer({ minimum: 1, maximum: METRIC_POINTS_MAX, description: "Number of intervals; default: 120" })),
    }),
    responses: { 200: DataOf(RobotMetrics) },
    errors: [503],
  },
  getRobotConfig: {
    summary: "Get the effective config with the scope of each value, and the state reported by the robot",
    responses: { 200: DataOf(RobotConfig) },
  },
  listRobotLogs: {
    summary: "List the latest log records, oldest first",
    query: logQuery,
    responses: { 200: ListOf(LogRecord) },
  },
  exportRobotLogs: {
    summary: "Export all log records as JSON lines, oldest first",
    query: logExportQuery,
    responses: { 200: null },
    produces: "application/x-ndjson",
    audit: "always",
  },
  listRobotTimeline: {
    summary: "List the events of a robot, newest first",
    query: Shape({ ...page, kind: Maybe(Type.String({ minLength: 1, maxLength: 100 })), since: Maybe(Time), until: Maybe(Time) }),
    responses: { 200: ListOf(TimelineEntry) },
  },
});
