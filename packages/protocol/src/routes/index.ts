import { alertRoutes } from "./alerts.ts";
import { channelRoutes } from "./channels.ts";
import { configRoutes } from "./configs.ts";
import { deploymentRoutes } from "./deployments.ts";
import { auditRoutes, eventRoutes } from "./events.ts";
import { logRoutes } from "./logs.ts";
import { agentRoutes, operationRoutes } from "./operations.ts";
import { metricRoutes } from "./metrics.ts";
import { orgRoutes } from "./orgs.ts";
import { overviewRoutes } from "./overview.ts";
import { peopleRoutes } from "./people.ts";
import { placeRoutes } from "./places.ts";
import { floorPlanRoutes, positionRoutes } from "./positions.ts";
import { releaseRoutes, signingRoutes } from "./releases.ts";
import { reportRoutes } from "./report.ts";
import { robotRoutes } from "./robots.ts";
import { shellRoutes, streamRoutes } from "./streams.ts";
import { viewRoutes } from "./views.ts";

/** Every HTTP route, by name. The server runs these objects, and the OpenAPI document is generated from them. */
export const routes = {
  ...operationRoutes,
  ...peopleRoutes,
  ...orgRoutes,
  ...overviewRoutes,
  ...reportRoutes,
  ...robotRoutes,
  ...metricRoutes,
  ...positionRoutes,
  ...floorPlanRoutes,
  ...logRoutes,
  ...streamRoutes,
  ...releaseRoutes,
  ...signingRoutes,
  ...shellRoutes,
  ...deploymentRoutes,
  ...configRoutes,
  ...placeRoutes,
  ...alertRoutes,
  ...channelRoutes,
  ...viewRoutes,
  ...eventRoutes,
  ...auditRoutes,
  ...agentRoutes,
};
export type Routes = typeof routes;

export type { Access, AnswerOf, BodyOf, Document, DryRunOf, ParamsOf, QueryOf, Route, RouteSpec } from "./route.ts";
export { type Actor, Problem, schemaNames } from "./route.ts";
export type { Channel, ChannelRoute, Delivery, NewChannel } from "./channels.ts";
export { METRIC_MINUTES_MAX, type AlertCondition } from "./alerts.ts";
export type { AlertMute, AlertRule, AlertRuleTest, Incident, IncidentEntry, IncidentMember } from "./alerts.ts";
export type { ConfigEntry, ConfigSchema, ConfigVersion, RobotConfigDiff } from "./configs.ts";
export type { ConfigDeployment, Deployment, DeploymentEvent, DeploymentTarget, Explanation } from "./deployments.ts";
export { type AuditEntry, type Change, CHANGE_KINDS, type ChangeKind, type ChangeSummary } from "./events.ts";
export {
  type ConfigDeploymentPlan,
  type DeploymentPlan,
  type DeploymentWave,
  EXPIRES_DAYS_MAX,
  PLAN_ROBOTS_MAX,
  type Rollout,
  type WholeRollout,
} from "./rollout.ts";
export { METRIC_GROUPS_MAX, METRIC_ROBOTS_MAX, type MetricAnswer } from "./metrics.ts";
export type { ApprovedOrg, Org, OwnOrg, Stats } from "./orgs.ts";
export type { Grant, Me, NewToken, RemovedUser, Session, Token, User, UserHolding } from "./people.ts";
export type { EnrollmentKey, Fleet, NewEnrollmentKey, Site } from "./places.ts";
export type { Enrolled, HostedPackages, InstallParts } from "./operations.ts";
export type { TargetSelector } from "./target-selector.ts";
export type { FloorPlan, RobotPosition } from "./positions.ts";
export { LOG_BUCKETS_MAX, type FoundLogRecord, type LogHistogram } from "./logs.ts";
export type { Release, SigningKeys } from "./releases.ts";
export type { AppVersions, FleetOverview, Overview, RobotTimelineEntry } from "./overview.ts";
export { REPORT_DAYS_MAX, REPORT_HOURS, type Report, type ReportedChange, type ReportedDeployment, type ReportedRobots } from "./report.ts";
export type { SavedView } from "./views.ts";
export type { RobotShellSession, ShellSession, StreamTicket } from "./streams.ts";
export { BULK_ROBOTS_MAX, HEALTH_POINTS_MAX } from "./robots.ts";
export type { BulkOutcome, HealthPoint, HealthSnapshot, LogRecord, Robot, RobotConfig, RobotMetrics, TimelineEntry } from "./robots.ts";
