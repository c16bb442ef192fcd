import { type TSchema, Type } from "typebox";
import { DEPLOYMENT_STATUSES, REPORTED_ROBOTS } from "../states.ts";
import { Incident } from "./alerts.ts";
import { Actor, Count, DataOf, defineRoutes, Entity, Id, type Of, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

/** Maximum age of the start of a report. */
export const REPORT_DAYS_MAX = 7;
/** Period of a report without `since`. */
export const REPORT_HOURS = 8;

const Part = <T extends TSchema>(item: T) =>
  Shape({
    count: Count,
    truncated: Type.Boolean({ description: "Whether only the newest data was read, so that more exist than `count`" }),
    items: Type.Array(item, { description: "The newest 20" }),
  });

export const ReportedDeployment = Entity("ReportedDeployment", {
  id: Id,
  kind: OneOf(["release", "config"]),
  name: Type.String({ description: "The tag of the release, or the namespaces of the config" }),
  robot_id: Nullable(Id),
  fleet_id: Nullable(Id),
  target_name: Type.String({ description: "The name of the robot or fleet, or the selection in words" }),
  status: OneOf(DEPLOYMENT_STATUSES),
  reason: Nullable(Type.String()),
  waiting_gate: Type.Boolean({ description: "Whether a wave waits for a promotion" }),
  counts: Shape({ total: Count, applied: Count, failed: Count, rolled_back: Count }),
  created_by: Actor,
  at: Type.String({ format: "date-time", description: "When it started or finished" }),
});
export type ReportedDeployment = Of<typeof ReportedDeployment>;

export const ReportedRobots = Entity("ReportedRobots", {
  kind: OneOf(REPORTED_ROBOTS),
  site_id: Id,
  site_name: Type.String(),
  deployment_id: Nullable(Type.String({ description: "The deployment whose installation failed" })),
  robot_count: Count,
  offline_count: Type.Integer({ minimum: 0, description: "Robots of the group that are offline now" }),
  robot_id: Type.String({ description: "The robot with the newest entry of the group" }),
  robot_name: Type.String(),
  summary: Type.String({ description: "One sentence about the group, which ends with the newest reason" }),
  at: Nullable(Time),
});
export type ReportedRobots = Of<typeof ReportedRobots>;

export const ReportedChange = Entity("ReportedChange", {
  id: Id,
  at: Time,
  actor: Actor,
  action: Type.String(),
  object_id: Nullable(Id),
  summary: Type.String({ description: "What was changed, without the actor" }),
});
export type ReportedChange = Of<typeof ReportedChange>;

export const Report = Entity("Report", {
  since: Time,
  until: Time,
  changed: Shape({
    started_deployments: Part(ReportedDeployment),
    finished_deployments: Part(ReportedDeployment),
    releases: Part(ReportedChange),
    configs: Part(ReportedChange),
    people: Nullable(Part(ReportedChange)),
  }),
  broken: Shape({
    incidents: Part(Incident),
    deployments: Part(ReportedDeployment),
    robots: Part(ReportedRobots),
  }),
  open: Shape({
    incidents: Part(Incident),
    deployments: Part(ReportedDeployment),
    robots: Part(ReportedRobots),
  }),
});
export type Report = Of<typeof Report>;

export const reportRoutes = defineRoutes("Overview", {
  getReport: {
    summary: "Get a shift report: what changed, what broke and what is open",
    query: Shape({
      since: Maybe({
        ...Time,
        description: `Start of the report, at most ${REPORT_DAYS_MAX} days ago. Default: ${REPORT_HOURS} hours ago`,
      }),
    }),
    responses: { 200: DataOf(Report) },
  },
});
