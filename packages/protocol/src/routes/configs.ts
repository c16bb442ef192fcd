import { Type } from "typebox";
import {
  ConfigDeployment,
  DeploymentEvent,
  deploymentFilters,
  DeploymentTarget,
  eventQuery,
  target,
  targetFilters,
} from "./deployments.ts";
import { defineRoute } from "./route.ts";
import { withoutDefaults, withoutTargetKind } from "./same-body.ts";
import {
  Actor,
  DataOf,
  Id,
  IdParams,
  Json,
  ListOf,
  Maybe,
  Name,
  named,
  Nullable,
  type Of,
  OneOf,
  page,
  Shape,
  stamps,
  Time,
} from "./shapes.ts";

export const Scope = OneOf(["org", "site", "fleet", "robot"]);
/** A namespace becomes a file on the robot, percent-encoded. */
export const Namespace = Name;

export const ConfigEntry = named(
  "ConfigEntry",
  Shape({
    id: Id,
    key: Type.String(),
    value: Json,
    secret: Type.Boolean({ description: "The value is encrypted, told to robots only, and null here" }),
    namespace: Type.String(),
    scope: Scope,
    scope_id: Nullable(Id),
    version: Type.Integer({ minimum: 1 }),
    schema: Json,
    updated_by: Nullable(Type.String()),
    removed_at: Nullable(Time),
    ...stamps,
  }),
);
export type ConfigEntry = Of<typeof ConfigEntry>;

/** What an entry was, from one change to the next. */
export const ConfigVersion = named(
  "ConfigVersion",
  Shape({
    config_id: Id,
    version: Type.Integer({ minimum: 1 }),
    change: OneOf(["set", "removed", "rolled_back"]),
    value: Json,
    secret: Type.Boolean(),
    rollback_of: Nullable(Type.Integer()),
    actor: Actor,
    at: Time,
  }),
);
export type ConfigVersion = Of<typeof ConfigVersion>;

export const ConfigSchema = named(
  "ConfigSchema",
  Shape({ namespace: Type.String(), schema: Json, version: Type.Integer({ minimum: 1 }), updated_by: Actor, updated_at: Time }),
);
export type ConfigSchema = Of<typeof ConfigSchema>;

export const RobotConfigDiff = named(
  "RobotConfigDiff",
  Shape({
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
  }),
);
export type RobotConfigDiff = Of<typeof RobotConfigDiff>;

const NamespaceParams = Shape({ namespace: Namespace });

export const configRoutes = {
  listConfigs: defineRoute("listConfigs", {
    summary: "List config entries",
    tag: "Configs",
    access: "viewer",
    query: Shape({
      ...page,
      namespace: Maybe(Type.String({ maxLength: 200 })),
      key: Maybe(Type.String({ maxLength: 200 })),
      scope: Maybe(Scope),
      scope_id: Maybe(Id),
      removed: Maybe(Type.Boolean({ description: "Those that were removed, instead of those that are set" })),
    }),
    responses: { 200: ListOf(ConfigEntry) },
    errors: [404],
  }),
  setConfig: defineRoute("setConfig", {
    summary: "Set a config value; robots get it by a config deployment",
    tag: "Configs",
    access: "operator",
    body: Shape({
      key: Name,
      value: Json,
      namespace: Maybe(Namespace),
      scope: Maybe(Scope),
      scope_id: Maybe(Id),
      secret: Maybe(
        Type.Boolean({ description: "Encrypt the value and show it to nobody but the robots that it is for; needs the role admin" }),
      ),
    }),
    secret_body: true,
    sameBody: withoutDefaults({ namespace: "default", scope: "org", secret: false }),
    idempotency: "accepted",
    responses: { 200: DataOf(ConfigEntry), 201: DataOf(ConfigEntry) },
    errors: [404, 409],
  }),
  getConfig: defineRoute("getConfig", {
    summary: "Get a config entry",
    tag: "Configs",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(ConfigEntry) },
  }),
  deleteConfig: defineRoute("deleteConfig", {
    summary: "Remove a config entry; its history stays, and setting it again goes on with it",
    tag: "Configs",
    access: "admin",
    params: IdParams,
    responses: { 200: DataOf(ConfigEntry) },
  }),
  listConfigHistory: defineRoute("listConfigHistory", {
    summary: "Every version of a config entry, the newest first; of a removed one too",
    tag: "Configs",
    access: "viewer",
    params: IdParams,
    query: Shape({ ...page }),
    responses: { 200: ListOf(ConfigVersion) },
  }),
  rollBackConfig: defineRoute("rollBackConfig", {
    summary: "Set the value of an earlier version again, as the next version; of a secret it needs the role admin",
    tag: "Configs",
    access: "operator",
    params: IdParams,
    body: Shape({ version: Type.Integer({ minimum: 1 }) }),
    idempotency: "accepted",
    responses: { 200: DataOf(ConfigEntry) },
    errors: [409],
  }),
  listConfigSchemas: defineRoute("listConfigSchemas", {
    summary: "List the schemas of namespaces",
    tag: "Configs",
    access: "viewer",
    query: Shape({ ...page }),
    responses: { 200: ListOf(ConfigSchema) },
  }),
  getConfigSchema: defineRoute("getConfigSchema", {
    summary: "Get the schema of a namespace",
    tag: "Configs",
    access: "viewer",
    params: NamespaceParams,
    responses: { 200: DataOf(ConfigSchema) },
    errors: [404],
  }),
  setConfigSchema: defineRoute("setConfigSchema", {
    summary: "Give a namespace a JSON Schema (draft 2020-12) that its values must fit",
    tag: "Configs",
    access: "operator",
    params: NamespaceParams,
    body: Shape({ schema: Json }),
    responses: { 200: DataOf(ConfigSchema), 201: DataOf(ConfigSchema) },
    errors: [409],
  }),
  deleteConfigSchema: defineRoute("deleteConfigSchema", {
    summary: "Remove the schema of a namespace: any value goes",
    tag: "Configs",
    access: "admin",
    params: NamespaceParams,
    responses: { 200: DataOf(ConfigSchema) },
    errors: [404],
  }),
  listConfigDeployments: defineRoute("listConfigDeployments", {
    summary: "List config deployments",
    tag: "Configs",
    access: "viewer",
    query: Shape({ ...page, ...deploymentFilters, namespace: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: ListOf(ConfigDeployment) },
    errors: [404],
  }),
  createConfigDeployment: defineRoute("createConfigDeployment", {
    summary: "Bring the effective config to a robot or a fleet",
    tag: "Configs",
    access: "operator",
    body: Shape({ ...target, namespace: Maybe(Namespace) }),
    sameBody: withoutTargetKind,
    idempotency: "required",
    responses: { 201: DataOf(ConfigDeployment) },
    errors: [404, 409],
  }),
  getConfigDeployment: defineRoute("getConfigDeployment", {
    summary: "Get a config deployment",
    tag: "Configs",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(ConfigDeployment) },
  }),
  listConfigDeploymentEvents: defineRoute("listConfigDeploymentEvents", {
    summary: "Events of a config deployment, oldest first",
    tag: "Configs",
    access: "viewer",
    params: IdParams,
    query: eventQuery,
    responses: { 200: ListOf(DeploymentEvent) },
  }),
  listConfigDeploymentTargets: defineRoute("listConfigDeploymentTargets", {
    summary: "Robots of a config deployment and how far each is",
    tag: "Configs",
    access: "viewer",
    params: IdParams,
    query: Shape({ ...page, ...targetFilters }),
    responses: { 200: ListOf(DeploymentTarget) },
  }),
  cancelConfigDeployment: defineRoute("cancelConfigDeployment", {
    summary: "Cancel a config deployment: robots that have not got it keep what they have",
    tag: "Configs",
    access: "operator",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    responses: { 202: DataOf(ConfigDeployment) },
    errors: [409],
  }),
  diffRobotConfig: defineRoute("diffRobotConfig", {
    summary: "What the next config deployment would change in the files of a robot",
    tag: "Configs",
    access: "viewer",
    params: IdParams,
    query: Shape({ namespace: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: DataOf(RobotConfigDiff) },
  }),
};
