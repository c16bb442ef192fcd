import { Type } from "typebox";
import { TimelineEntry } from "./robots.ts";
import { Count, DataOf, defineRoutes, Entity, Id, ListOf, type Of, page, Time } from "./route.ts";
import { Maybe, Shape } from "../schema.ts";

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
  config_deployments: Shape({ in_progress: Count }),
  unhealthy_robots: Type.Array(Shape({ id: Id, name: Type.String(), fleet_id: Id, failing: Type.Array(Type.String()) }), {
    description: "Up to ten robots whose latest report has failing checks",
  }),
});
export type Overview = Of<typeof Overview>;

export const overviewRoutes = defineRoutes("Overview", {
  getOverview: {
    summary: "Get counts of robots and deployments by state",
    responses: { 200: DataOf(Overview) },
  },
  listTimeline: {
    summary: "List the events of all robots, newest first",
    query: Shape({
      ...page,
      kind: Maybe(Type.String({ minLength: 1, maxLength: 100 })),
      robot_id: Maybe(Id),
      fleet_id: Maybe(Id),
      since: Maybe(Time),
      until: Maybe(Time),
    }),
    responses: { 200: ListOf(RobotTimelineEntry) },
    errors: [404],
  },
});
