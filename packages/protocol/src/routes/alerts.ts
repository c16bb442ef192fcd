import { Type } from "typebox";
import { VERSION_NUMBERS_PATTERN } from "../agent-version.ts";
import { ALERT_CONDITIONS, INCIDENT_ENTRIES, INCIDENT_STATUSES, SEVERITIES } from "../states.ts";
import {
  Actor,
  Count,
  DataOf,
  defineRoutes,
  Entity,
  Id,
  Labels,
  ListOf,
  Name,
  type Of,
  page,
  stamps,
  Time,
  withoutDefaults,
} from "./route.ts";
import { MetricLabels, MetricName } from "./rollout.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

/** Maximum minutes of a mean or rate, and of metric_absent. */
export const METRIC_MINUTES_MAX = 60;
const METRIC_ABSENT_MINUTES_MAX = 1_440;

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
  metric: Maybe(MetricName),
  metric_labels: Maybe(MetricLabels),
  threshold: Maybe(Type.Number({ description: "metric_above, metric_below, metric_rate_above (per second): the limit" })),
  minutes: Maybe(
    Type.Integer({
      minimum: 1,
      maximum: METRIC_ABSENT_MINUTES_MAX,
      description:
        "The period of the mean or rate until the newest sample, at most 60. Default: 5. metric_absent: time without a sample. Default: 60",
    }),
  ),
});
export type AlertCondition = Of<typeof AlertCondition>;

const Comment = Type.String({ minLength: 1, maxLength: 4_000, pattern: "\\S", description: "Text of a comment" });

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
  rule_id: Type.String({ description: "The rule may have been deleted" }),
  title: Type.String(),
  severity: OneOf(SEVERITIES),
  site_id: Id,
  fleet_id: Nullable(Type.String({ description: "Null: robots of the whole site" })),
  status: OneOf(INCIDENT_STATUSES),
  member_count: Type.Integer({ minimum: 0, description: "Robots or deployments that have matched" }),
  active_count: Type.Integer({ minimum: 0, description: "Robots or deployments that match now; 0 if a user resolved the incident" }),
  flap_count: Count,
  assignee_id: Nullable(Type.String({ description: "The user who works on the incident" })),
  assignee_name: Nullable(Type.String()),
  robot_name: Nullable(Type.String({ description: "The robot, if it is the only member and matches now" })),
  raised_at: Type.String({ format: "date-time", description: "When it was opened, or last reopened" }),
  acknowledged_at: Nullable(Time),
  resolved_at: Nullable(Time),
  ...stamps,
});
export type Incident = Of<typeof Incident>;

export const IncidentMember = Entity("IncidentMember", {
  subject_id: Type.String({ description: "Id of the robot or deployment" }),
  robot_name: Nullable(Type.String({ description: "Null: a deployment, or a robot that does not exist any more" })),
  joined_at: Time,
  left_at: Nullable(Type.String({ format: "date-time", description: "When it stopped matching; null: it matches now" })),
});
export type IncidentMember = Of<typeof IncidentMember>;

export const IncidentEntry = Entity("IncidentEntry", {
  id: Id,
  at: Time,
  kind: OneOf(INCIDENT_ENTRIES),
  actor: Actor,
  comment: Nullable(Type.String({ description: "commented: the comment; assigned: the name of the user, null: of no user" })),
});
export type IncidentEntry = Of<typeof IncidentEntry>;

export const AlertMute = Entity("AlertMute", {
  id: Id,
  site_id: Nullable(Id),
  fleet_id: Nullable(Id),
  rule_id: Nullable(Id),
  from_at: Time,
  until_at: Time,
  reason: Nullable(Type.String()),
  created_by: Actor,
  created_at: Time,
});
export type AlertMute = Of<typeof AlertMute>;

const MEMBERS_SHOWN_MAX = 100;

/** What a rule matches. */
export const AlertRuleTest = Entity("AlertRuleTest", {
  match_count: Type.Integer({ minimum: 0, description: "Robots or deployments that match now" }),
  scope_count: Nullable(Type.Integer({ minimum: 0, description: "Robots of the scope; null for conditions on deployments" })),
  matches: Type.Array(Shape({ subject_id: Id, robot_name: Nullable(Type.String()), site_id: Id, fleet_id: Nullable(Id) }), {
    maxItems: MEMBERS_SHOWN_MAX,
    description: `The first ${MEMBERS_SHOWN_MAX} of the matches`,
  }),
  past: Nullable(
    Shape(
      {
        since: Type.String({ format: "date-time", description: "Start of the stored history that was searched" }),
        match_count: Type.Integer({ minimum: 0, description: "How often a robot or deployment matched for the duration" }),
        incident_count: Type.Integer({ minimum: 0, description: "Incidents that these matches would have opened" }),
      },
      { description: "Null: the stored history does not contain the state of this condition" },
    ),
  ),
});
export type AlertRuleTest = Of<typeof AlertRuleTest>;

const ForSeconds = Type.Integer({
  minimum: 0,
  maximum: 604_800,
  description: "How long the condition must be true before an incident is opened",
});
const force = Maybe(Type.Boolean({ description: "Accept a rule that matches every robot of its scope" }));
/** Fields of a rule that limit it to some robots. */
const scope = {
  site_id: Maybe(Id),
  fleet_id: Maybe(Id),
  labels: Maybe(Labels),
};

/** Changes of a rule that change what it matches. */
const changedMatches = {
  condition: Maybe(AlertCondition),
  for_seconds: Maybe(ForSeconds),
  ...scope,
  whole_org: Maybe(Type.Boolean({ description: "Remove the limit to a site or fleet. A given site_id or fleet_id replaces both" })),
};

export const alertRoutes = defineRoutes("Alerts", {
  listAlertRules: {
    summary: "List alert rules",
    query: Shape({ ...page }),
    responses: { 200: ListOf(AlertRule) },
  },
  createAlertRule: {
    summary: "Create an alert rule, or with `dry_run` return what it would match",
    body: Shape({
      name: Name,
      condition: AlertCondition,
      severity: OneOf(SEVERITIES),
      for_seconds: Maybe(ForSeconds),
      ...scope,
      enabled: Maybe(Type.Boolean({ default: true })),
      force,
      dry_run: Maybe(Type.Boolean({ description: "Return what the rule matches, and store nothing" })),
    }),
    sameBody: withoutDefaults({ for_seconds: 0, labels: {}, enabled: true, force: false, dry_run: false }),
    dry_run: DataOf(AlertRuleTest),
    responses: { 201: DataOf(AlertRule) },
    errors: [404, 409],
  },
  getAlertRule: {
    summary: "Get an alert rule",
    responses: { 200: DataOf(AlertRule) },
  },
  updateAlertRule: {
    summary: "Change, enable or disable an alert rule; a changed condition or scope restarts its durations",
    body: Shape({ name: Maybe(Name), severity: Maybe(OneOf(SEVERITIES)), ...changedMatches, enabled: Maybe(Type.Boolean()), force }),
    responses: { 200: DataOf(AlertRule) },
    errors: [404, 409],
  },
  deleteAlertRule: {
    summary: "Delete an alert rule; its open incidents are resolved",
    responses: { 200: DataOf(AlertRule) },
  },
  testAlertRule: {
    summary: "Return what an alert rule matches, with changes that are not stored",
    body: Shape(changedMatches),
    responses: { 200: DataOf(AlertRuleTest) },
    errors: [404],
  },
  listAlertMutes: {
    summary: "List the current and future times in which incidents send no messages",
    query: Shape({ ...page }),
    responses: { 200: ListOf(AlertMute) },
  },
  createAlertMute: {
    summary: "Mute incidents for a time: of a rule, a fleet or a site, or all. They are opened, but send no messages",
    body: Shape({
      site_id: Maybe(Id),
      fleet_id: Maybe(Id),
      rule_id: Maybe(Id),
      from_at: Maybe(Type.String({ format: "date-time", maxLength: 64, description: "Default: now" })),
      until_at: Time,
      reason: Maybe(Comment),
    }),
    responses: { 201: DataOf(AlertMute) },
    errors: [404, 409],
  },
  deleteAlertMute: {
    summary: "Delete a mute; delayed messages of unresolved incidents are sent",
    responses: { 200: DataOf(AlertMute) },
  },
  listIncidents: {
    summary: "List incidents, newest first",
    query: Shape({
      ...page,
      status: Maybe(OneOf(INCIDENT_STATUSES)),
      unresolved: Maybe(Type.Boolean({ description: "List open and acknowledged incidents only" })),
      severity: Maybe(OneOf(SEVERITIES)),
      site_id: Maybe(Id),
      fleet_id: Maybe(Id),
      robot_id: Maybe(Id),
      rule_id: Maybe(Id),
    }),
    responses: { 200: ListOf(Incident) },
    errors: [404],
  },
  getIncident: {
    summary: "Get an incident",
    responses: { 200: DataOf(Incident) },
  },
  listIncidentMembers: {
    summary: "List the robots or deployments of an incident",
    query: Shape({ ...page, active: Maybe(Type.Boolean({ description: "List only those that match now" })) }),
    responses: { 200: ListOf(IncidentMember) },
  },
  listIncidentEntries: {
    summary: "List the history of an incident, newest first",
    query: Shape({ ...page }),
    responses: { 200: ListOf(IncidentEntry) },
  },
  acknowledgeIncident: {
    summary: "Acknowledge an incident: someone works on it",
    body: Shape({}),
    responses: { 200: DataOf(Incident) },
    errors: [409],
  },
  resolveIncident: {
    summary: "Resolve an incident; robots that match now reopen it only after they have stopped matching",
    body: Shape({ comment: Maybe(Comment) }),
    responses: { 200: DataOf(Incident) },
    errors: [409],
  },
  commentIncident: {
    summary: "Add a comment to an incident",
    body: Shape({ comment: Comment }),
    responses: { 200: DataOf(Incident) },
  },
  assignIncident: {
    summary: "Assign an incident to a user of the org",
    body: Shape({ user_id: Maybe(Type.String({ description: "Default: the caller" })) }),
    responses: { 200: DataOf(Incident) },
    errors: [404],
  },
  unassignIncident: {
    summary: "Remove the assignee of an incident",
    body: Shape({}),
    responses: { 200: DataOf(Incident) },
  },
});
