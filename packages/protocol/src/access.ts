import type { FleetStreamName, RouteName, StreamName } from "./paths.ts";
import type { Role } from "./states.ts";

/**
 * Who may call a route: anyone (`public`), a portal token with at least the named role, the holder of the service's admin token
 * (`service_admin`), or a robot that signs its requests (`robot`).
 */
export type Access = "public" | Role | "service_admin" | "robot";

/**
 * Kinds of objects that a scope can include. With the kinds `target` and `config_scope`, a neighboring field of the request contains the
 * actual kind of the object. The kind `selector` is for a field that contains the ids of a site, a fleet and robots. The kind
 * `incident_rule` is an alert rule that may have been deleted: the list of its incidents decides whether the caller may name it.
 */
export type ObjectKind =
  | "site"
  | "fleet"
  | "robot"
  | "deployment"
  | "config_deployment"
  | "config"
  | "enrollment_key"
  | "shell_session"
  | "alert_rule"
  | "incident_rule"
  | "alert_mute"
  | "incident"
  | "target"
  | "selector"
  | "config_scope";

/**
 * A field of a request that contains the id of an object: the part of the request, the name of the field, the kind of the object, and the
 * required role.
 */
export interface ObjectField {
  in: "params" | "query" | "body";
  field: string;
  kind: ObjectKind;
  /** The role on the object that the caller needs. */
  role: Role;
}

/**
 * How a route responds if the caller's role does not cover the object. `not_found`: as if the referenced object did not exist. `filtered`:
 * with a list that omits the object. `forbidden`: with a refusal, because the data belongs to the whole org. `allowed`: normally, because
 * every member may see this data of the whole org.
 */
export type OutsideScope = "not_found" | "filtered" | "forbidden" | "allowed";

export interface AccessRow {
  access: Access;
  /** Human-readable name of what the route accesses. */
  about: string;
  outside: OutsideScope;
  objects: readonly ObjectField[];
}

/**
 * Fields of requests that contain the id of an object, with the object's kind. The field `id` is not listed, because the kind of its object
 * depends on the route.
 */
export const OBJECT_FIELDS = {
  site_id: "site",
  fleet_id: "fleet",
  robot_id: "robot",
  deployment_id: "deployment",
  target_id: "target",
  target_selector: "selector",
  scope_id: "config_scope",
  rule_id: "alert_rule",
} as const satisfies Record<string, ObjectKind>;
type FieldName = keyof typeof OBJECT_FIELDS;

const fields = (place: ObjectField["in"], role: Role, names: readonly FieldName[]): ObjectField[] =>
  names.map((field) => ({ in: place, field, kind: OBJECT_FIELDS[field], role }));
/** Returns the fields of a query that contain ids. The caller needs the role viewer on these objects. */
const query = (...names: FieldName[]): ObjectField[] => fields("query", "viewer", names);

/** Returns the access row of a route to which scopes do not apply. */
const free = <A extends Access>(access: A, about = "the service") => ({ access, about, outside: "allowed" as const, objects: [] });
/** Returns the access row of a route with whole-org data that every member may access. */
const shared = <A extends Role>(access: A, about: string) => ({ access, about, outside: "allowed" as const, objects: [] });
/** Returns the access row of a route with whole-org data. The caller needs the role in the whole org. */
const whole = <A extends Role>(access: A, about: string) => ({ access, about, outside: "forbidden" as const, objects: [] });
/** Returns the access row of a route that lists only the objects that the caller may see. */
const list = <A extends Role>(access: A, about: string, objects: ObjectField[] = []) => ({
  access,
  about,
  outside: "filtered" as const,
  objects,
});
/** Returns the access row of a route with an object's id in its path. `more`: other fields of the request that contain ids. */
const one = <A extends Role>(access: A, kind: ObjectKind, more: ObjectField[] = []) => ({
  access,
  about: kind.replaceAll("_", " "),
  outside: "not_found" as const,
  objects: [{ in: "params", field: "id", kind, role: access } as const, ...more],
});
/**
 * Returns the access row of a route whose body contains ids. The caller needs the role on the objects in the fields `names`, and only
 * viewer on those in the fields `seen`.
 */
const at = <A extends Role>(access: A, names: readonly FieldName[], seen: readonly FieldName[] = []) => ({
  access,
  about: names.map((name) => OBJECT_FIELDS[name].replaceAll("_", " ")).join(" or "),
  outside: "not_found" as const,
  objects: [...fields("body", "viewer", seen), ...fields("body", access, names)],
});

/**
 * The complete access rules: each route with its required role and its handling of scopes. The server enforces these rows, the routes take
 * their role from them, and tests check every cell. A route without a row does not compile.
 */
export const access = {
  getOpenapi: free("public"),
  getDocs: free("public"),
  getHealthz: free("public"),
  getReadyz: free("public"),
  getMetrics: free("service_admin"),
  getCertificateAuthority: free("public"),
  getInstallScript: free("public"),
  getHostedPackages: shared("viewer", "the packages that the server hosts"),

  getMe: shared("viewer", "the caller"),
  getOrg: shared("viewer", "the org"),
  updateOrg: whole("admin", "the org"),
  requestOrg: free("public"),

  createSession: shared("viewer", "the session"),
  getSession: shared("viewer", "the session"),
  updateSession: shared("viewer", "the session"),
  endSession: shared("viewer", "the session"),

  listUsers: whole("admin", "users"),
  createUser: whole("admin", "users"),
  getUser: whole("admin", "users"),
  updateUser: whole("admin", "users"),
  listUserHoldings: whole("admin", "users"),
  deleteUser: whole("admin", "users"),

  listTokens: whole("admin", "tokens"),
  createToken: whole("admin", "tokens"),
  getToken: whole("admin", "tokens"),
  revokeToken: whole("admin", "tokens"),
  rotateToken: whole("admin", "tokens"),

  // The stream contains only changes of objects that the caller may read.
  streamEvents: list("viewer", "changes"),

  listAudit: whole("admin", "the audit"),
  exportAudit: whole("admin", "the audit"),
  listServiceAudit: free("service_admin"),

  getOverview: list("viewer", "the overview"),
  getFleetOverview: list("viewer", "the overview of the fleets", query("site_id", "fleet_id")),
  // The people of the org are only in the reports of its admins.
  getReport: list("viewer", "the report"),
  listTimeline: list("viewer", "the timeline", query("robot_id", "fleet_id", "site_id")),

  listMetrics: list("viewer", "the names of metrics"),
  queryMetrics: list("viewer", "metrics of robots", query("fleet_id", "site_id", "robot_id")),

  listRobots: list("viewer", "robots", query("fleet_id", "site_id")),
  // The handler checks the role on each robot of the list and reports the result for each robot.
  bulkUpdateRobots: list("operator", "robots", fields("body", "operator", ["fleet_id"])),
  getRobot: one("viewer", "robot"),
  // Moving a robot requires the role on both fleets.
  updateRobot: one("operator", "robot", fields("body", "operator", ["fleet_id"])),
  deleteRobot: one("admin", "robot"),
  replaceRobot: one("operator", "robot"),
  releaseHold: one("operator", "robot"),
  // An approved robot receives secrets of the whole org, so approval requires the role in the whole org.
  approveRobot: whole("admin", "robots"),
  explainRobot: one("viewer", "robot", query("deployment_id")),
  getRobotHealth: one("viewer", "robot"),
  getRobotHealthHistory: one("viewer", "robot"),
  getRobotMetrics: one("viewer", "robot"),
  getRobotConfig: one("viewer", "robot"),
  diffRobotConfig: one("viewer", "robot"),
  listRobotLogs: one("viewer", "robot"),
  exportRobotLogs: one("viewer", "robot"),
  searchLogs: list("viewer", "log records", query("site_id", "fleet_id", "robot_id")),
  countLogs: list("viewer", "log records", query("site_id", "fleet_id", "robot_id")),
  listRobotTimeline: one("viewer", "robot"),
  listShellSessions: one("viewer", "robot"),
  listAllShellSessions: list("viewer", "shells", query("robot_id")),
  getShellSession: one("viewer", "shell_session"),
  getShellRecording: one("admin", "shell_session"),
  listPositions: list("viewer", "positions of robots", query("fleet_id", "site_id", "robot_id")),
  getFloorPlan: one("viewer", "site"),
  putFloorPlan: one("operator", "site"),
  deleteFloorPlan: one("operator", "site"),

  // A ticket needs the same role as its stream.
  createStreamTicket: at("viewer", ["robot_id", "fleet_id"]),

  // A caller that may deploy to only one fleet must still see all releases. It may not change them, because a release can be deployed to
  // any fleet.
  listReleases: shared("viewer", "releases"),
  createRelease: whole("operator", "releases"),
  getRelease: shared("viewer", "releases"),
  deleteRelease: whole("admin", "releases"),
  putReleaseArtifact: whole("operator", "releases"),
  getReleaseArtifact: shared("operator", "releases"),
  startUpload: whole("operator", "releases"),
  continueUpload: whole("operator", "releases"),
  endUpload: whole("operator", "releases"),

  getSigningKeys: whole("admin", "signing keys"),
  changeSigningKeys: whole("admin", "signing keys"),

  listDeployments: list("viewer", "deployments", query("robot_id", "fleet_id")),
  createDeployment: at("operator", ["robot_id", "fleet_id", "target_id", "target_selector"]),
  getDeployment: one("viewer", "deployment"),
  listDeploymentEvents: one("viewer", "deployment", query("robot_id")),
  listDeploymentTargets: one("viewer", "deployment", query("robot_id")),
  listDeploymentWaves: one("viewer", "deployment"),
  pauseDeployment: one("operator", "deployment"),
  resumeDeployment: one("operator", "deployment"),
  promoteDeployment: one("operator", "deployment"),
  cancelDeployment: one("operator", "deployment"),
  retryDeployment: one("operator", "deployment"),
  rollBackDeployment: one("operator", "deployment"),

  listConfigs: list("viewer", "configs", query("scope_id")),
  setConfig: at("operator", ["scope_id"]),
  getConfig: one("viewer", "config"),
  deleteConfig: one("admin", "config"),
  listConfigHistory: one("viewer", "config"),
  // Operators may roll back a config. If it is a secret, the handler also requires the role admin in the scope of the config.
  rollBackConfig: one("operator", "config"),
  // A namespace's schema applies to every robot of the org.
  listConfigSchemas: shared("viewer", "config schemas"),
  getConfigSchema: shared("viewer", "config schemas"),
  setConfigSchema: whole("operator", "config schemas"),
  deleteConfigSchema: whole("admin", "config schemas"),
  listConfigDeployments: list("viewer", "config deployments", query("robot_id", "fleet_id")),
  createConfigDeployment: at("operator", ["robot_id", "fleet_id", "target_id", "target_selector"]),
  getConfigDeployment: one("viewer", "config_deployment"),
  listConfigDeploymentEvents: one("viewer", "config_deployment", query("robot_id")),
  listConfigDeploymentTargets: one("viewer", "config_deployment", query("robot_id")),
  listConfigDeploymentWaves: one("viewer", "config_deployment"),
  pauseConfigDeployment: one("operator", "config_deployment"),
  resumeConfigDeployment: one("operator", "config_deployment"),
  promoteConfigDeployment: one("operator", "config_deployment"),
  cancelConfigDeployment: one("operator", "config_deployment"),

  listSites: list("viewer", "sites"),
  createSite: whole("operator", "sites"),
  getSite: one("viewer", "site"),
  updateSite: one("operator", "site"),
  deleteSite: one("admin", "site"),

  listFleets: list("viewer", "fleets", query("site_id")),
  createFleet: at("operator", ["site_id"]),
  getFleet: one("viewer", "fleet"),
  updateFleet: one("operator", "fleet"),
  deleteFleet: one("admin", "fleet"),
  listFleetLogs: one("viewer", "fleet"),
  exportFleetLogs: one("viewer", "fleet"),

  listEnrollmentKeys: list("viewer", "enrollment keys", query("fleet_id", "site_id")),
  createEnrollmentKey: at("operator", ["fleet_id"], ["site_id"]),
  getEnrollmentKey: one("viewer", "enrollment_key"),
  revokeEnrollmentKey: one("operator", "enrollment_key"),

  // A rule of the whole org opens incidents everywhere, so all members see it. Changing it requires the role in the whole org.
  listAlertRules: list("viewer", "alert rules"),
  createAlertRule: at("operator", ["site_id", "fleet_id"]),
  getAlertRule: one("viewer", "alert_rule"),
  // Moving a rule requires the role on its new site and fleet, too.
  updateAlertRule: one("operator", "alert_rule", fields("body", "operator", ["site_id", "fleet_id"])),
  deleteAlertRule: one("admin", "alert_rule"),
  testAlertRule: one("operator", "alert_rule", fields("body", "operator", ["site_id", "fleet_id"])),

  listAlertMutes: list("viewer", "alert mutes"),
  createAlertMute: at("operator", ["site_id", "fleet_id", "rule_id"]),
  deleteAlertMute: one("operator", "alert_mute"),

  listIncidents: list("viewer", "incidents", [
    ...query("site_id", "fleet_id", "robot_id"),
    { in: "query", field: "rule_id", kind: "incident_rule", role: "viewer" },
  ]),
  getIncident: one("viewer", "incident"),
  listIncidentMembers: one("viewer", "incident"),
  listIncidentEntries: one("viewer", "incident"),
  acknowledgeIncident: one("operator", "incident"),
  resolveIncident: one("operator", "incident"),
  commentIncident: one("operator", "incident"),
  assignIncident: one("operator", "incident"),
  unassignIncident: one("operator", "incident"),

  // A message reports incidents of any site, and a channel sends them out of the org.
  listChannels: whole("admin", "channels"),
  createChannel: whole("admin", "channels"),
  getChannel: whole("admin", "channels"),
  updateChannel: whole("admin", "channels"),
  deleteChannel: whole("admin", "channels"),
  testChannel: whole("admin", "channels"),
  listDeliveries: whole("admin", "channels"),
  resendDelivery: whole("admin", "channels"),

  // Any member may save private views. The handlers require the role operator in the whole org for changes of shared views. They hide shared
  // views that contain an id from callers who are limited to sites or fleets.
  listViews: shared("viewer", "saved views"),
  createView: shared("viewer", "saved views"),
  updateView: shared("viewer", "saved views"),
  deleteView: shared("viewer", "saved views"),

  listOrgs: free("service_admin"),
  createOrg: free("service_admin"),
  getAnyOrg: free("service_admin"),
  approveOrg: free("service_admin"),
  rejectOrg: free("service_admin"),
  suspendOrg: free("service_admin"),
  resumeOrg: free("service_admin"),
  getStats: free("service_admin"),

  getAgentOpenapi: free("public"),
  enrollRobot: free("public"),
  listAgentSigning: free("robot"),
  getAgentArtifact: free("robot"),
  getAgentConfig: free("robot"),
} as const satisfies Record<RouteName, AccessRow>;

/** The access rows of the WebSockets of viewers. */
export const streamAccess = {
  logs: one("viewer", "robot"),
  shell: one("operator", "robot"),
  camera: one("operator", "robot"),
  ros_echo: one("operator", "robot"),
  forward: one("operator", "robot"),
  files: one("operator", "robot"),
} as const satisfies Record<StreamName, AccessRow & { access: Role }>;

export const fleetStreamAccess = {
  fleet_logs: one("viewer", "fleet"),
} as const satisfies Record<FleetStreamName, AccessRow & { access: Role }>;

/** Returns the access row of a route as the common type of all rows. */
export const accessOf = (name: RouteName): AccessRow => access[name];
