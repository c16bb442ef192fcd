import { Type } from "typebox";
import {
  ConfigDeployment,
  DeploymentEvent,
  deploymentFilters,
  DeploymentTarget,
  eventQuery,
  sameDeployment,
  start,
  target,
  targetFilters,
  waveFilter,
} from "./deployments.ts";
import { ConfigDeploymentPlan, DeploymentWave } from "./rollout.ts";
import { Actor, DataOf, defineRoutes, Entity, Id, Json, ListOf, Name, type Of, page, stamps, Time, withoutDefaults } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

export const Scope = OneOf(["org", "site", "fleet", "robot"]);
/** Name of a config namespace. The robot stores the namespace in a file with this name, percent-encoded. */
export const Namespace = Name;

export const ConfigEntry = Entity("ConfigEntry", {
  id: Id,
  key: Type.String(),
  value: Json,
  secret: Type.Boolean({ description: "The value is encrypted, revealed to robots only, and null here" }),
  namespace: Type.String(),
  scope: Scope,
  scope_id: Nullable(Id),
  version: Type.Integer({ minimum: 1 }),
  schema: Json,
  updated_by: Nullable(Type.String()),
  removed_at: Nullable(Time),
  ...stamps,
});
export type ConfigEntry = Of<typeof ConfigEntry>;

/** One version of a config entry. */
export const ConfigVersion = Entity("ConfigVersion", {
  config_id: Id,
  version: Type.Integer({ minimum: 1 }),
  change: OneOf(["set", "removed", "rolled_back"]),
  value: Json,
  secret: Type.Boolean(),
  rollback_of: Nullable(Type.Integer()),
  actor: Actor,
  at: Time,
});
export type ConfigVersion = Of<typeof ConfigVersion>;

export const ConfigSchema = Entity("ConfigSchema", {
  namespace: Type.String(),
  schema: Json,
  version: Type.Integer({ minimum: 1 }),
  updated_by: Actor,
  updated_at: Time,
});
export type ConfigSchema = Of<typeof ConfigSchema>;

export const RobotConfigDiff = Entity("RobotConfigDiff", {
  robot_id: Id,
  changes: Type.Array(
    Shape({
      namespace: Type.String(),
      key: Type.String(),
      change: OneOf(["added", "removed", "changed"]),
      deployed: Json,
      effective: Json,
      secret: Type.Boolean(),
    }),
  ),
});
export type RobotConfigDiff = Of<typeof RobotConfigDiff>;

const NamespaceParams = Shape({ namespace: Namespace });

export const configRoutes = defineRoutes("Configs", {
  listConfigs: {
    summary: "List config entries",
    query: Shape({
      ...page,
      namespace: Maybe(Type.String({ maxLength: 200 })),
      key: Maybe(Type.String({ maxLength: 200 })),
      scope: Maybe(Scope),
      scope_id: Maybe(Id),
      removed: Maybe(Type.Boolean({ description: "List removed entries instead of current ones" })),
    }),
    responses: { 200: ListOf(ConfigEntry) },
    errors: [404],
  },
  setConfig: {
    summary: "Set a config value; a config deployment delivers it to robots",
    body: Shape({
      key: Name,
      value: Json,
      namespace: Maybe(Namespace),
      scope: Maybe(Scope),
      scope_id: Maybe(Id),
      secret: Maybe(
        Type.Boolean({ description: "Encrypt the value and reveal it only to the robots that it applies to; needs the role admin" }),
      ),
    }),
    secret_body: true,
    sameBody: withoutDefaults({ namespace: "default", scope: "org", secret: false }),
    responses: { 200: DataOf(ConfigEntry), 201: DataOf(ConfigEntry) },
    errors: [404, 409],
  },
  getConfig: {
    summary: "Get a config entry",
    responses: { 200: DataOf(ConfigEntry) },
  },
  deleteConfig: {
    summary: "Remove a config entry; its history is kept, and setting it again continues the history",
    responses: { 200: DataOf(ConfigEntry) },
  },
  listConfigHistory: {
    summary: "List every version of a config entry, newest first, even if the entry was removed",
    query: Shape({ ...page }),
    responses: { 200: ListOf(ConfigVersion) },
  },
  rollBackConfig: {
    summary: "Restore the value of an earlier version as a new version; a secret needs the role admin",
    body: Shape({ version: Type.Integer({ minimum: 1 }) }),
    responses: { 200: DataOf(ConfigEntry) },
    errors: [409],
  },
  listConfigSchemas: {
    summary: "List the schemas of namespaces",
    query: Shape({ ...page }),
    responses: { 200: ListOf(ConfigSchema) },
  },
  getConfigSchema: {
    summary: "Get the schema of a namespace",
    params: NamespaceParams,
    responses: { 200: DataOf(ConfigSchema) },
    errors: [404],
  },
  setConfigSchema: {
    summary: "Set the JSON Schema (draft 2020-12) that a namespace's values must satisfy",
    params: NamespaceParams,
    body: Shape({ schema: Json }),
    responses: { 200: DataOf(ConfigSchema), 201: DataOf(ConfigSchema) },
    errors: [409],
  },
  deleteConfigSchema: {
    summary: "Remove the schema of a namespace, so that any value is accepted",
    params: NamespaceParams,
    responses: { 200: DataOf(ConfigSchema) },
    errors: [404],
  },
  listConfigDeployments: {
    summary: "List config deployments",
    query: Shape({ ...page, ...deploymentFilters, namespace: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: ListOf(ConfigDeployment) },
    errors: [404],
  },
  createConfigDeployment: {
    summary: "Deploy the effective config to a robot, a fleet or selected robots, immediately or at a scheduled time",
    body: Shape({ ...target, namespace: Maybe(Namespace), ...start }),
    sameBody: sameDeployment,
    idempotency: "required",
    dry_run: DataOf(ConfigDeploymentPlan),
    responses: { 201: DataOf(ConfigDeployment) },
    errors: [404, 409],
  },
  getConfigDeployment: {
    summary: "Get a config deployment",
    responses: { 200: DataOf(ConfigDeployment) },
  },
  listConfigDeploymentEvents: {
    summary: "List the events of a config deployment, oldest first",
    query: eventQuery,
    responses: { 200: ListOf(DeploymentEvent) },
  },
  listConfigDeploymentTargets: {
    summary: "List the robots of a config deployment with their status",
    query: Shape({ ...page, ...targetFilters, ...waveFilter }),
    responses: { 200: ListOf(DeploymentTarget) },
  },
  listConfigDeploymentWaves: {
    summary: "List the waves of a config deployment in order, with their status",
    query: Shape({ ...page }),
    responses: { 200: ListOf(DeploymentWave) },
  },
  pauseConfigDeployment: {
    summary: "Pause a config deployment: in-progress robots finish; no new ones start",
    body: Shape({}),
    responses: { 200: DataOf(ConfigDeployment) },
    errors: [409],
  },
  resumeConfigDeployment: {
    summary: "Resume a paused config deployment; if it exceeded its failure threshold, it stops again at the next failure",
    body: Shape({}),
    responses: { 200: DataOf(ConfigDeployment) },
    errors: [409],
  },
  promoteConfigDeployment: {
    summary: "Start the next wave of a config deployment now, skipping the remaining soak time and a manual gate",
    body: Shape({}),
    responses: { 200: DataOf(ConfigDeployment) },
    errors: [409],
  },
  cancelConfigDeployment: {
    summary: "Cancel a config deployment: robots that have not applied it keep their current values",
    body: Shape({}),
    responses: { 202: DataOf(ConfigDeployment) },
    errors: [409],
  },
  diffRobotConfig: {
    summary: "Preview what the next config deployment would change in a robot's files",
    query: Shape({ namespace: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: DataOf(RobotConfigDiff) },
  },
});
