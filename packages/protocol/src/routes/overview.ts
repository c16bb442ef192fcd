import { Type } from "typebox";
import { TimelineEntry } from "./robots.ts";
import { defineRoute } from "./route.ts";
import { Count, DataOf, Id, ListOf, Maybe, named, type Of, page, Shape, Time } from "./shapes.ts";

/** A robot's entry where entries of several robots stand together. */
export const RobotTimelineEntry = named(
  "RobotTimelineEntry",
  Shape({ ...TimelineEntry.properties, robot_id: Id, robot_name: Type.String() }),
);
export type RobotTimelineEntry = Of<typeof RobotTimelineEntry>;

export const Overview = named(
  "Overview",
  Shape({
    robots: Shape({
      total: Count,
      online: Count,
      offline: Count,
      never_connected: Count,
      unhealthy: Type.Integer({ minimum: 0, description: "Whose last word was that something fails" }),
      behind: Type.Integer({ minimum: 0, description: "Whose app main is not what it is to be" }),
      failed: Type.Integer({ minimum: 0, description: "Whose last deployment of the app main failed" }),
      drifted: Type.Integer({ minimum: 0, description: "With a config file that is not the deployed one" }),
      held: Type.Integer({ minimum: 0, description: "That are not let in, because several machines have their identity" }),
    }),
    deployments: Shape({
      scheduled: Count,
      queued: Count,
      in_progress: Count,
      paused: Count,
      waiting_gate: Count,
      failed: Type.Integer({ minimum: 0, description: "Made in the last 7 days and ended as failed" }),
      following: Type.Integer({
        minimum: 0,
        description: "Not ended, of robots that follow their fleet; the other numbers do not count these",
      }),
    }),
    config_deployments: Shape({ in_progress: Count }),
    unhealthy_robots: Type.Array(Shape({ id: Id, name: Type.String(), fleet_id: Id, failing: Type.Array(Type.String()) }), {
      description: "The newest ten of them",
    }),
  }),
);
export type Overview = Of<typeof Overview>;

export const overviewRoutes = {
  getOverview: defineRoute("getOverview", {
    summary: "How the robots and deployments are, in numbers",
    tag: "Overview",
    access: "viewer",
    responses: { 200: DataOf(Overview) },
  }),
  listTimeline: defineRoute("listTimeline", {
    summary: "What happened to the robots, newest first",
    tag: "Overview",
    access: "viewer",
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
  }),
};
