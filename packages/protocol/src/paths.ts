/**
 * Method and path of every HTTP route, separate from the schemas so that the command line starts without loading them. The schemas of the
 * routes are in routes/.
 */
export const paths = {
  getOpenapi: ["GET", "/openapi.json"],
  getDocs: ["GET", "/docs"],
  getHealthz: ["GET", "/healthz"],
  getReadyz: ["GET", "/readyz"],
  getMetrics: ["GET", "/metrics"],
  getCertificateAuthority: ["GET", "/ca.pem"],
  getInstallScript: ["GET", "/install.sh"],
  getHostedPackages: ["GET", "/api/packages"],

  getMe: ["GET", "/api/me"],
  getOrg: ["GET", "/api/org"],
  updateOrg: ["PATCH", "/api/org"],
  requestOrg: ["POST", "/api/orgs"],

  createSession: ["POST", "/api/auth/session"],
  getSession: ["GET", "/api/auth/session"],
  updateSession: ["PATCH", "/api/auth/session"],
  endSession: ["DELETE", "/api/auth/session"],

  listUsers: ["GET", "/api/users"],
  createUser: ["POST", "/api/users"],
  getUser: ["GET", "/api/users/{id}"],
  updateUser: ["PATCH", "/api/users/{id}"],
  listUserHoldings: ["GET", "/api/users/{id}/holdings"],
  deleteUser: ["DELETE", "/api/users/{id}"],

  listTokens: ["GET", "/api/tokens"],
  createToken: ["POST", "/api/tokens"],
  getToken: ["GET", "/api/tokens/{id}"],
  revokeToken: ["POST", "/api/tokens/{id}/revoke"],
  rotateToken: ["POST", "/api/tokens/{id}/rotate"],

  getOverview: ["GET", "/api/overview"],
  getFleetOverview: ["GET", "/api/overview/fleets"],
  getReport: ["GET", "/api/report"],
  listTimeline: ["GET", "/api/timeline"],

  listMetrics: ["GET", "/api/metrics"],
  queryMetrics: ["GET", "/api/metrics/query"],

  listRobots: ["GET", "/api/robots"],
  bulkUpdateRobots: ["POST", "/api/robots/bulk"],
  getRobot: ["GET", "/api/robots/{id}"],
  updateRobot: ["PATCH", "/api/robots/{id}"],
  deleteRobot: ["DELETE", "/api/robots/{id}"],
  replaceRobot: ["POST", "/api/robots/{id}/replace"],
  releaseHold: ["POST", "/api/robots/{id}/release-hold"],
  approveRobot: ["POST", "/api/robots/{id}/approve"],
  explainRobot: ["GET", "/api/robots/{id}/explain"],
  getRobotHealth: ["GET", "/api/robots/{id}/health"],
  getRobotHealthHistory: ["GET", "/api/robots/{id}/health/history"],
  getRobotMetrics: ["GET", "/api/robots/{id}/metrics"],
  getRobotConfig: ["GET", "/api/robots/{id}/config"],
  diffRobotConfig: ["GET", "/api/robots/{id}/config/diff"],
  listRobotLogs: ["GET", "/api/robots/{id}/logs"],
  exportRobotLogs: ["GET", "/api/robots/{id}/logs/export"],
  searchLogs: ["GET", "/api/logs"],
  countLogs: ["GET", "/api/logs/histogram"],
  listRobotTimeline: ["GET", "/api/robots/{id}/timeline"],
  listShellSessions: ["GET", "/api/robots/{id}/shell-sessions"],
  listAllShellSessions: ["GET", "/api/shell-sessions"],
  getShellSession: ["GET", "/api/shell-sessions/{id}"],
  getShellRecording: ["GET", "/api/shell-sessions/{id}/recording"],

  listPositions: ["GET", "/api/positions"],
  getFloorPlan: ["GET", "/api/sites/{id}/floor-plan"],
  putFloorPlan: ["PUT", "/api/sites/{id}/floor-plan"],
  deleteFloorPlan: ["DELETE", "/api/sites/{id}/floor-plan"],

  createStreamTicket: ["POST", "/api/stream-tickets"],

  listReleases: ["GET", "/api/releases"],
  createRelease: ["POST", "/api/releases"],
  getRelease: ["GET", "/api/releases/{id}"],
  deleteRelease: ["DELETE", "/api/releases/{id}"],
  putReleaseArtifact: ["PUT", "/api/releases/{id}/artifact"],
  getReleaseArtifact: ["GET", "/api/releases/{id}/artifact"],
  startUpload: ["POST", "/api/releases/{id}/artifact"],
  continueUpload: ["PATCH", "/api/releases/{id}/artifact"],
  endUpload: ["DELETE", "/api/releases/{id}/artifact"],

  getSigningKeys: ["GET", "/api/signing-keys"],
  changeSigningKeys: ["POST", "/api/signing-keys"],

  listDeployments: ["GET", "/api/deployments"],
  createDeployment: ["POST", "/api/deployments"],
  getDeployment: ["GET", "/api/deployments/{id}"],
  listDeploymentEvents: ["GET", "/api/deployments/{id}/events"],
  listDeploymentTargets: ["GET", "/api/deployments/{id}/targets"],
  listDeploymentWaves: ["GET", "/api/deployments/{id}/waves"],
  pauseDeployment: ["POST", "/api/deployments/{id}/pause"],
  resumeDeployment: ["POST", "/api/deployments/{id}/resume"],
  promoteDeployment: ["POST", "/api/deployments/{id}/promote"],
  cancelDeployment: ["POST", "/api/deployments/{id}/cancel"],
  retryDeployment: ["POST", "/api/deployments/{id}/retry"],
  rollBackDeployment: ["POST", "/api/deployments/{id}/rollback"],

  listConfigs: ["GET", "/api/configs"],
  setConfig: ["POST", "/api/configs"],
  getConfig: ["GET", "/api/configs/{id}"],
  deleteConfig: ["DELETE", "/api/configs/{id}"],
  listConfigHistory: ["GET", "/api/configs/{id}/history"],
  rollBackConfig: ["POST", "/api/configs/{id}/rollback"],
  listConfigSchemas: ["GET", "/api/configs/schemas"],
  getConfigSchema: ["GET", "/api/configs/schemas/{namespace}"],
  setConfigSchema: ["PUT", "/api/configs/schemas/{namespace}"],
  deleteConfigSchema: ["DELETE", "/api/configs/schemas/{namespace}"],
  listConfigDeployments: ["GET", "/api/configs/deployments"],
  createConfigDeployment: ["POST", "/api/configs/deployments"],
  getConfigDeployment: ["GET", "/api/configs/deployments/{id}"],
  listConfigDeploymentEvents: ["GET", "/api/configs/deployments/{id}/events"],
  listConfigDeploymentTargets: ["GET", "/api/configs/deployments/{id}/targets"],
  listConfigDeploymentWaves: ["GET", "/api/configs/deployments/{id}/waves"],
  pauseConfigDeployment: ["POST", "/api/configs/deployments/{id}/pause"],
  resumeConfigDeployment: ["POST", "/api/configs/deployments/{id}/resume"],
  promoteConfigDeployment: ["POST", "/api/configs/deployments/{id}/promote"],
  cancelConfigDeployment: ["POST", "/api/configs/deployments/{id}/cancel"],

  listSites: ["GET", "/api/sites"],
  createSite: ["POST", "/api/sites"],
  getSite: ["GET", "/api/sites/{id}"],
  updateSite: ["PATCH", "/api/sites/{id}"],
  deleteSite: ["DELETE", "/api/sites/{id}"],

  listFleets: ["GET", "/api/fleets"],
  createFleet: ["POST", "/api/fleets"],
  getFleet: ["GET", "/api/fleets/{id}"],
  updateFleet: ["PATCH", "/api/fleets/{id}"],
  deleteFleet: ["DELETE", "/api/fleets/{id}"],
  listFleetLogs: ["GET", "/api/fleets/{id}/logs"],
  exportFleetLogs: ["GET", "/api/fleets/{id}/logs/export"],

  listEnrollmentKeys: ["GET", "/api/enrollment-keys"],
  createEnrollmentKey: ["POST", "/api/enrollment-keys"],
  getEnrollmentKey: ["GET", "/api/enrollment-keys/{id}"],
  revokeEnrollmentKey: ["POST", "/api/enrollment-keys/{id}/revoke"],

  listAlertRules: ["GET", "/api/alert-rules"],
  createAlertRule: ["POST", "/api/alert-rules"],
  getAlertRule: ["GET", "/api/alert-rules/{id}"],
  updateAlertRule: ["PATCH", "/api/alert-rules/{id}"],
  deleteAlertRule: ["DELETE", "/api/alert-rules/{id}"],
  testAlertRule: ["POST", "/api/alert-rules/{id}/test"],

  listAlertMutes: ["GET", "/api/alert-mutes"],
  createAlertMute: ["POST", "/api/alert-mutes"],
  deleteAlertMute: ["DELETE", "/api/alert-mutes/{id}"],

  listIncidents: ["GET", "/api/incidents"],
  getIncident: ["GET", "/api/incidents/{id}"],
  listIncidentMembers: ["GET", "/api/incidents/{id}/members"],
  listIncidentEntries: ["GET", "/api/incidents/{id}/entries"],
  acknowledgeIncident: ["POST", "/api/incidents/{id}/acknowledge"],
  resolveIncident: ["POST", "/api/incidents/{id}/resolve"],
  commentIncident: ["POST", "/api/incidents/{id}/comment"],
  assignIncident: ["POST", "/api/incidents/{id}/assign"],
  unassignIncident: ["POST", "/api/incidents/{id}/unassign"],

  listChannels: ["GET", "/api/channels"],
  createChannel: ["POST", "/api/channels"],
  getChannel: ["GET", "/api/channels/{id}"],
  updateChannel: ["PATCH", "/api/channels/{id}"],
  deleteChannel: ["DELETE", "/api/channels/{id}"],
  testChannel: ["POST", "/api/channels/{id}/test"],
  listDeliveries: ["GET", "/api/channels/{id}/deliveries"],
  resendDelivery: ["POST", "/api/deliveries/{id}/resend"],

  listViews: ["GET", "/api/views"],
  createView: ["POST", "/api/views"],
  updateView: ["PATCH", "/api/views/{id}"],
  deleteView: ["DELETE", "/api/views/{id}"],

  streamEvents: ["GET", "/api/events"],

  listAudit: ["GET", "/api/audit"],
  exportAudit: ["GET", "/api/audit/export"],
  listServiceAudit: ["GET", "/api/admin/audit"],

  listOrgs: ["GET", "/api/admin/orgs"],
  createOrg: ["POST", "/api/admin/orgs"],
  getAnyOrg: ["GET", "/api/admin/orgs/{id}"],
  rejectOrg: ["POST", "/api/admin/orgs/{id}/reject"],
  approveOrg: ["POST", "/api/admin/orgs/{id}/approve"],
  suspendOrg: ["POST", "/api/admin/orgs/{id}/suspend"],
  resumeOrg: ["POST", "/api/admin/orgs/{id}/resume"],
  getStats: ["GET", "/api/admin/stats"],

  getAgentOpenapi: ["GET", "/agent/openapi.json"],
  enrollRobot: ["POST", "/agent/enroll"],
  listAgentSigning: ["GET", "/agent/signing"],
  getAgentArtifact: ["GET", "/agent/artifacts/{sha256}"],
  getAgentConfig: ["GET", "/agent/configs/{namespace}"],
} as const;

export type RouteName = keyof typeof paths;
export type HttpMethod = (typeof paths)[RouteName][0];

/** WebSocket routes of a robot's streams for viewers; they are not part of the OpenAPI document. */
export const streamPaths = {
  logs: "/api/robots/{id}/logs/ws",
  shell: "/api/robots/{id}/shell/ws",
  camera: "/api/robots/{id}/camera/ws",
  ros_echo: "/api/robots/{id}/ros/topics/echo",
  forward: "/api/robots/{id}/forward/ws",
  files: "/api/robots/{id}/files/ws",
} as const;
export type StreamName = keyof typeof streamPaths;

/** WebSocket routes of a fleet's streams. */
export const fleetStreamPaths = {
  fleet_logs: "/api/fleets/{id}/logs/ws",
} as const;
export type FleetStreamName = keyof typeof fleetStreamPaths;

/** Name of the cookie that contains the session's secret: `secure` over TLS, `plain` over plain HTTP. */
export const SESSION_COOKIES = { secure: "__Host-roamfleet_session", plain: "roamfleet_session" } as const;
/** A page sends the session's CSRF token in this header. Pages of other sites cannot read the token, so they cannot send it. */
export const CSRF_HEADER = "X-CSRF-Token";

/** WebSocket route of robots. */
export const LINK_PATH = "/agent/ws";

/** Replaces the `{name}` parts of a path, percent-encoded. */
export function fillPath(path: string, params: Record<string, string>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined) throw new Error(`path ${path} needs a value for ${name}`);
    return encodeURIComponent(value);
  });
}

/** Close codes of viewers' WebSockets. */
export const CLOSE = {
  token_revoked: 4401,
  role_lost: 4403,
  robot_removed: 4404,
  agent_offline: 4409,
  ended_by_robot: 4410,
  too_many: 4429,
  draining: 1013,
  bad_message: 1008,
} as const;

const SHELL_ENDS: Readonly<Record<string, string>> = {
  viewer_left: "closed by the user",
  ended: "no exit code",
  token_revoked: "the user's token was revoked or expired",
  role_lost: "the user lost access",
  robot_removed: "the robot was decommissioned",
  agent_offline: "the robot disconnected",
  ended_by_robot: "closed by the robot",
  too_many: "too many open streams",
  draining: "the server stopped",
  bad_message: "invalid message",
  server_error: "server error",
  server_lost: "the server failed",
};

/** Converts the reason why a shell session ended to text. Reasons from robots are already text and stay unchanged. */
export const shellEndText = (reason: string): string => (Object.hasOwn(SHELL_ENDS, reason) ? SHELL_ENDS[reason]! : reason);
