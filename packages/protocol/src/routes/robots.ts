import { Type } from "typebox";
import { HealthBody, Platform } from "../link/messages.ts";
import { LOG_LEVELS } from "../link/limits.ts";
import { defineRoute } from "./route.ts";
import {
  Actor,
  AppName,
  Count,
  DataOf,
  Id,
  IdParams,
  Json,
  Labels,
  ListOf,
  Maybe,
  Name,
  named,
  Nullable,
  OneOf,
  type Of,
  page,
  Shape,
  stamps,
  Time,
} from "./shapes.ts";

const ReleaseRef = named("ReleaseRef", Shape({ id: Id, tag: Type.String() }));

export const RobotApp = named(
  "RobotApp",
  Shape({ app: AppName, current: Nullable(ReleaseRef), desired: Nullable(ReleaseRef), status: Type.String() }),
);

export const Robot = named(
  "Robot",
  Shape({
    id: Id,
    name: Type.String(),
    site_id: Id,
    fleet_id: Id,
    status: OneOf(["online", "offline", "never_connected", "decommissioned"]),
    last_seen_at: Nullable(Time),
    held_at: Nullable(Time),
    labels: Type.Record(Type.String(), Type.String()),
    agent_version: Nullable(Type.String()),
    platform: Nullable(Platform),
    apps: Type.Array(RobotApp),
    current_release: Nullable(ReleaseRef),
    desired_release: Nullable(ReleaseRef),
    release_state: OneOf(["current", "behind", "failed", "unknown"]),
    config_state: OneOf(["in_sync", "pending", "drifted", "unknown"]),
    public_key_fingerprint: Type.String(),
    ...stamps,
  }),
);
export type Robot = Of<typeof Robot>;

export const HealthSnapshot = named("HealthSnapshot", Shape({ robot_id: Id, received_at: Time, ...HealthBody.properties }));
export type HealthSnapshot = Of<typeof HealthSnapshot>;

export const LogRecord = named(
  "LogRecord",
  Shape({
    robot_id: Id,
    seq: Count,
    at: Time,
    received_at: Time,
    level: OneOf(LOG_LEVELS),
    source: Type.String(),
    message: Type.String(),
    fields: Type.Record(Type.String(), Json),
  }),
);
export type LogRecord = Of<typeof LogRecord>;

const logFilter = {
  since: Maybe(Time),
  until: Maybe(Time),
  level: Maybe(OneOf(LOG_LEVELS)),
  source: Maybe(Type.String({ minLength: 1, maxLength: 200 })),
  q: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "Text that the message contains, in any case" })),
};
/** Filters of a log: without any, the latest 200 records. */
export const logQuery = Shape({ ...page, ...logFilter });
export const logExportQuery = Shape(logFilter);

export const TimelineEntry = named(
  "TimelineEntry",
  Shape({ id: Id, at: Time, kind: Type.String(), actor: Actor, summary: Type.String(), data: Type.Record(Type.String(), Json) }),
);
export type TimelineEntry = Of<typeof TimelineEntry>;

export const EffectiveValue = named(
  "EffectiveValue",
  Shape({
    namespace: Type.String(),
    key: Type.String(),
    value: Json,
    secret: Type.Boolean(),
    scope: OneOf(["org", "site", "fleet", "robot"]),
    scope_id: Nullable(Type.String()),
    config_id: Id,
    version: Count,
  }),
);
export const RobotConfig = named(
  "RobotConfig",
  Shape({
    robot_id: Id,
    config_state: OneOf(["in_sync", "pending", "drifted", "unknown"]),
    effective: Type.Array(EffectiveValue),
    namespaces: Type.Array(
      Shape({
        namespace: Type.String(),
        deployed_version: Nullable(Count),
        deployed_sha256: Nullable(Type.String()),
        reported_sha256: Nullable(Type.String()),
        state: OneOf(["in_sync", "pending", "drifted", "unknown"]),
      }),
    ),
  }),
);
export type RobotConfig = Of<typeof RobotConfig>;

export const robotRoutes = {
  listRobots: defineRoute("listRobots", {
    summary: "List robots",
    tag: "Robots",
    access: "viewer",
    query: Shape({
      ...page,
      status: Maybe(OneOf(["online", "offline", "never_connected", "decommissioned"])),
      fleet_id: Maybe(Id),
      site_id: Maybe(Id),
      label: Maybe(Type.String({ minLength: 3, maxLength: 300, pattern: "^[^:]+:.*$", description: "KEY:VALUE" })),
      q: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "Part of the name, in any case" })),
    }),
    responses: { 200: ListOf(Robot) },
    errors: [404],
  }),
  getRobot: defineRoute("getRobot", {
    summary: "Get a robot",
    tag: "Robots",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(Robot) },
  }),
  releaseHold: defineRoute("releaseHold", {
    summary: "Let a robot in again that is held because several machines have its identity; not held: no change",
    tag: "Robots",
    access: "operator",
    params: IdParams,
    idempotency: "accepted",
    responses: { 200: DataOf(Robot) },
    errors: [409],
  }),
  updateRobot: defineRoute("updateRobot", {
    summary: "Rename, relabel or move a robot",
    tag: "Robots",
    access: "operator",
    params: IdParams,
    body: Shape({ name: Maybe(Name), labels: Maybe(Labels), fleet_id: Maybe(Id) }),
    responses: { 200: DataOf(Robot) },
    errors: [409],
  }),
  deleteRobot: defineRoute("deleteRobot", {
    summary: "Decommission a robot: its identity is refused from now on",
    tag: "Robots",
    access: "admin",
    params: IdParams,
    responses: { 200: DataOf(Robot) },
  }),
  getRobotHealth: defineRoute("getRobotHealth", {
    summary: "Latest health snapshot",
    tag: "Robots",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(HealthSnapshot) },
  }),
  getRobotConfig: defineRoute("getRobotConfig", {
    summary: "Effective config with the origin of each value, and what the robot reports",
    tag: "Robots",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(RobotConfig) },
  }),
  listRobotLogs: defineRoute("listRobotLogs", {
    summary: "Latest log records, oldest first",
    tag: "Robots",
    access: "viewer",
    params: IdParams,
    query: logQuery,
    responses: { 200: ListOf(LogRecord) },
  }),
  exportRobotLogs: defineRoute("exportRobotLogs", {
    summary: "Log records as lines of JSON, all of them, oldest first",
    tag: "Robots",
    access: "viewer",
    params: IdParams,
    query: logExportQuery,
    responses: { 200: null },
    produces: "application/x-ndjson",
    audit: "always",
  }),
  listRobotTimeline: defineRoute("listRobotTimeline", {
    summary: "Timeline of a robot, newest first",
    tag: "Robots",
    access: "viewer",
    params: IdParams,
    query: Shape({ ...page, kind: Maybe(Type.String({ minLength: 1, maxLength: 100 })), since: Maybe(Time), until: Maybe(Time) }),
    responses: { 200: ListOf(TimelineEntry) },
  }),
};
