import { Type } from "typebox";
import { VERSION_NUMBERS_PATTERN } from "../agent-version.ts";
import { ALERT_CONDITIONS, INCIDENT_STATUSES, SEVERITIES } from "../states.ts";
import { Count, defineRoutes, Entity, Id, Labels, ListOf, type Of, page, stamps, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

export const AlertCondition = Entity("AlertCondition", {
  type: OneOf(ALERT_CONDITIONS),
  check: Maybe(Type.String({ minLength: 1, maxLength: 200, description: "check_failing: the name of the check. Default: any check" })),
  percent: Maybe(Type.Integer({ minimum: 1, maximum: 99, description: "disk_above: the used share of a disk. Default: 90" })),
  below: Maybe(
    Type.String({
      pattern: VERSION_NUMBERS_PATTERN,
      description: "agent_outdated: the oldest current version. Default: the server's version",
    }),
  ),
});
export type AlertCondition = Of<typeof AlertCondition>;

export const AlertRule = Entity("AlertRule", {
  id: Id,
  name: Type.String(),
  condition: AlertCondition,
  for_seconds: Type.Integer({ minimum: 0, description: "How long the condition must be true" }),
  severity: OneOf(SEVERITIES),
  site_id: Nullable(Id),
  fleet_id: Nullable(Id),
  labels: Labels,
  disabled_at: Nullable(Time),
  ...stamps,
});
export type AlertRule = Of<typeof AlertRule>;

export const Incident = Entity("Incident", {
  id: Id,
  rule_id: Id,
  title: Type.String(),
  severity: OneOf(SEVERITIES),
  site_id: Id,
  fleet_id: Nullable(Type.String({ description: "Null: robots of the whole site" })),
  status: OneOf(INCIDENT_STATUSES),
  member_count: Type.Integer({ minimum: 0, description: "Robots or deployments that have matched" }),
  active_count: Type.Integer({ minimum: 0, description: "Robots or deployments that match now" }),
  flap_count: Count,
  raised_at: Type.String({ format: "date-time", description: "When it was opened, or last reopened" }),
  resolved_at: Nullable(Time),
  ...stamps,
});
export type Incident = Of<typeof Incident>;

export const alertRoutes = defineRoutes("Alerts", {
  listAlertRules: {
    summary: "List alert rules",
    query: Shape({ ...page }),
    responses: { 200: ListOf(AlertRule) },
  },
  listIncidents: {
    summary: "List incidents, newest first",
    query: Shape({
      ...page,
      status: Maybe(OneOf(INCIDENT_STATUSES)),
      severity: Maybe(OneOf(SEVERITIES)),
      site_id: Maybe(Id),
    }),
    responses: { 200: ListOf(Incident) },
    errors: [404],
  },
});
