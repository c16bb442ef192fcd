import { Type } from "typebox";
import { DEPLOYMENT_STATUSES } from "../states.ts";
import { TimelineEntry } from "./robots.ts";
import { Count, DataOf, defineRoutes, Entity, Id, ListOf, type Of, page, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

/** A timeline entry that names its robot, for lists with entries of several robots. */
export const RobotTimelineEntry = Entity("RobotTimelineEntry", { ...TimelineEntry.properties, robot_id: Id, robot_name: Type.String() });
export type RobotTimelineEntry = Of<typeof RobotTimelineEntry>;

export const Overview = Entity("Overview", {
  robots: Shape({
    total: Count,
    online: Count,
    offline: Count,
    never_connected: Count,
    unhealthy: Type.Integer({ minimum: 0, description: "Robots whose latest report has failing checks" }),
    behind: Type.Integer({ minimum: 0, description: "Robots whose app main does not run the desired release" }),
    failed: Type.Integer({ minimum: 0, description: "Robots whose last deployment of the app main failed" }),
    drifted: Type.Integer({ minimum: 0, description: "Robots with a config file that differs from the deployed one" }),
    held: Type.Integer({ minimum: 0, description: "Robots that are quarantined because several machines use their identity" }),
    pending: Type.Integer({ minimum: 0, description: "Robots that have not installed a deployed config yet" }),
    lost: Type.Integer({ minimum: 0, description: "Offline robots that were last seen in the past hour" }),
    last_lost_at: Nullable(Type.String({ format: "date-time", description: "When the last of the offline robots was last seen" })),
  }),
  deployments: Shape({
    scheduled: Count,
    queued: Count,
    in_progress: Count,
    paused: Count,
    waiting_gate: Count,
    failed: Type.Integer({ minimum: 0, description: "Deployments that failed, created since failed_since" }),
    failed_since: Type.String({
      format: "date-time",
      description: "Start of the period in which failed deployments are counted: 7 days ago",
    }),
    following: Type.Integer({
      minimum: 0,
      description: "Unfinished automatic deployments of robots that follow their fleet; not included in the other counts",
    }),
  }),
  config_deployments: Shape({ in_progress: Count, paused: Count, waiting_gate: Count }),
  unhealthy_robots: Type.Array(Shape({ id: Id, name: Type.String(), fleet_id: Id, failing: Type.Array(Type.String()) }), {
    description: "Up to ten robots whose latest report has failing checks",
  }),
});
export type Overview = Of<typeof Overview>;

const VERSIONS_SHOWN_MAX = 5;
const FLEETS_SHOWN_MAX = 100;
const APPS_SHOWN_MAX = 10;
const APP_VERSIONS_SHOWN_MAX = 8;

const Version = Shape({ release_id: Id, tag: Type.String({ description: "Empty if the release was deleted" }), count: Count });

const AppVersions = Shape({
  app: Type.String(),
  total: Type.Integer({ minimum: 0, description: "Robots that run any release of the app" }),
  versions: Type.Array(Version, {
    maxItems: APP_VERSIONS_SHOWN_MAX,
    description: `The ${APP_VERSIONS_SHOWN_MAX} most frequent releases of the app`,
  }),
});
export type AppVersions = Of<typeof AppVersions>;

const FleetState = Shape({
  fleet_id: Id,
  fleet_name: Type.String(),
  site_id: Id,
  site_name: Type.String(),
  total: Count,
  online: Count,
  never_connected: Count,
  unhealthy: Count,
  last_lost_at: Nullable(Type.String({ format: "date-time", description: "When the last of the offline robots was last seen" })),
  app: Nullable(Type.String({ description: "The app that runs on most robots of the fleet; null: none" })),
  versions: Type.Array(Version, {
    maxItems: VERSIONS_SHOWN_MAX,
    description: `The ${VERSIONS_SHOWN_MAX} most frequent releases of this app`,
  }),
  newest_deployment: Nullable(
    Shape({
      id: Id,
      kind: OneOf(["release", "config"]),
      status: OneOf(DEPLOYMENT_STATUSES),
      awaiting_promotion: Type.Boolean(),
      created_at: Time,
    }),
  ),
});

export const FleetOverview = Entity("FleetOverview", {
  fleet_count: Count,
  fleets: Type.Array(FleetState, {
    maxItems: FLEETS_SHOWN_MAX,
    description: `Up to ${FLEETS_SHOWN_MAX} fleets; those with most unhealthy and offline robots first`,
  }),
  apps: Type.Array(AppVersions, {
    maxItems: APPS_SHOWN_MAX,
    description: `The releases that the robots of all fleets run, for the ${APPS_SHOWN_MAX} most frequent apps`,
  }),
});
export type FleetOverview = Of<typeof FleetOverview>;

export const overviewRoutes = defineRoutes("Overview", {
  getOverview: {
    summary: "Get counts of robots and deployments by state",
    responses: { 200: DataOf(Overview) },
  },
  getFleetOverview: {
    summary: "Get the state, releases and newest deployment of each fleet, of one site or one fleet if requested",
    query: Shape({ site_id: Maybe(Id), fleet_id: Maybe(Id) }),
    responses: { 200: DataOf(FleetOverview) },
    errors: [404],
  },
  listTimeline: {
    summary: "List the events of all robots, newest first",
    query: Shape({
      ...page,
      kind: Maybe(Type.String({ minLength: 1, maxLength: 100 })),
      robot_id: Maybe(Id),
      fleet_id: Maybe(Id),
      site_id: Maybe(Id),
      since: Maybe(Time),
      until: Maybe(Time),
    }),
    responses: { 200: ListOf(RobotTimelineEntry) },
    errors: [404],
  },
});
