import type { AlertConditionType } from "@roamfleet/protocol";
import type { AlertCondition } from "@roamfleet/protocol/routes";
import { equals, json, sql, type Statement } from "../../kernel/sql.ts";
import { type WatchedMetric, watchKey } from "../metrics/index.ts";
import { agentOlderThan } from "../robots/index.ts";

/** The robots to which a rule applies. All fields null or empty: the whole org. */
export interface RuleScope {
  site_id: string | null;
  fleet_id: string | null;
  labels: Record<string, string>;
}

interface ConditionContext {
  org_id: string;
  now: Date;
  /** Version of this server. Agents with an older one are outdated unless the condition has a version. */
  server_version: string;
}

/** Returns a query for robots or deployments for which the condition is true now: subject_id, site_id and fleet_id. */
type Matches = (condition: AlertCondition, scope: RuleScope, context: ConditionContext) => Statement<unknown>;

const DISK_PERCENT = 90;
/** A deployment that failed matches for this long; then its incident is resolved. */
export const FAILED_DEPLOYMENT_MS = 24 * 3_600_000;

const METRIC_MINUTES = 5;
const ABSENT_MINUTES = 60;
/** Values whose newest sample is older do not match. Robots send samples at least every 30 minutes. */
const VALUE_AGE_MS_MAX = 3_600_000;
const MINUTE_MS = 60_000;

/** Returns the metric that a condition uses; undefined for other conditions. */
export function watchedMetric({ type, metric, metric_labels = {}, minutes = METRIC_MINUTES }: AlertCondition): WatchedMetric | undefined {
  // `metric_absent` needs the time of the newest sample only.
  return metric === undefined ? undefined : { metric, labels: metric_labels, minutes: type === "metric_absent" ? METRIC_MINUTES : minutes };
}

const keyOf = (condition: AlertCondition): string => {
  const watched = watchedMetric(condition);
  return watched === undefined ? "" : watchKey(watched);
};

/** Robots whose value compares as given. */
const withValue =
  (comparison: (threshold: number) => Statement<unknown>): Matches =>
  (condition, scope, context) =>
    robots(
      context,
      scope,
      sql`exists (
        -- reads tables of other features: metric_value
        select from metric_value v where v.org_id = r.org_id and v.key = ${keyOf(condition)} and v.robot_id = r.id
          and v.at >= ${new Date(context.now.getTime() - VALUE_AGE_MS_MAX)} and ${comparison(condition.threshold ?? 0)})`,
    );

const hasLabels = (labels: RuleScope["labels"]): Statement<unknown> =>
  Object.keys(labels).length === 0 ? sql`` : sql`and r.labels @> ${json(labels)}::jsonb`;

/** Selects the robots of a scope that are in use: those that were connected once and are not decommissioned. */
export const robotsInUse = (org_id: string, { site_id, fleet_id, labels }: RuleScope): Statement<unknown> =>
  // reads tables of other features: robot
  sql`
    select r.id as subject_id, r.site_id, r.fleet_id from robot r
    where r.org_id = ${org_id} and r.decommissioned_at is null and r.connected_at is not null
      ${equals({ "r.site_id": site_id ?? undefined, "r.fleet_id": fleet_id ?? undefined })} ${hasLabels(labels)}`;

const robots = ({ org_id }: ConditionContext, scope: RuleScope, condition: Statement<unknown>) =>
  sql`${robotsInUse(org_id, scope)} and ${condition}`;

/**
 * Whether a deployment failed: robots could not install the release. If all of them returned to their previous release, its status is
 * `rolled_back`, as after a rollback that a person requested.
 */
export const HAS_FAILED = sql`(d.status = 'failed'
  or d.status = 'rolled_back' and (d.reason_counts -> 'rolled_back') - array['', 'rollback_requested'] <> '{}'::jsonb)`;

/**
 * The site of a deployment d to robot r, fleet f or a selection. A selection that names no place belongs to the site of its first target, so
 * that its failure opens an incident, too. Null for a deleted fleet.
 */
export const SITE_OF_DEPLOYMENT = sql`coalesce(r.site_id, f.site_id, d.target_selector ->> 'site_id', case when d.target_selector is not null then (
  -- reads tables of other features: deployment_target, robot
  select s.site_id from (
    select robot_id from deployment_target t where t.org_id = d.org_id and t.deployment_id = d.id order by t.id limit 1) t
  join robot s on s.org_id = d.org_id and s.id = t.robot_id) end)`;

const deployments = ({ org_id }: ConditionContext, { site_id, fleet_id }: RuleScope, condition: Statement<unknown>) =>
  // reads tables of other features: deployment, robot, fleet
  sql`
    select p.* from (
      select d.id as subject_id, ${SITE_OF_DEPLOYMENT} as site_id, coalesce(r.fleet_id, f.id) as fleet_id
      from deployment d left join robot r on r.org_id = d.org_id and r.id = d.robot_id
        left join fleet f on f.org_id = d.org_id and f.id = coalesce(d.fleet_id, d.target_selector ->> 'fleet_id')
      where d.org_id = ${org_id} and ${condition}) p
    where p.site_id is not null ${equals({ "p.site_id": site_id ?? undefined, "p.fleet_id": fleet_id ?? undefined })}`;

/**
 * The query of each type of condition. Durations, grouping and messages are the same for all types, so a new type needs only a query.
 */
const MATCHES: Record<AlertConditionType, Matches> = {
  robot_offline: (_, scope, context) => robots(context, scope, sql`r.node_id is null`),
  check_failing: ({ check }, scope, context) =>
    robots(
      context,
      scope,
      sql`exists (
        -- reads tables of other features: health_snapshot
        select from health_snapshot h where h.org_id = r.org_id and h.robot_id = r.id and h.state = 'failing'
          ${check === undefined ? sql`` : failingCheck(check)})`,
    ),
  disk_above: ({ percent = DISK_PERCENT }, scope, context) =>
    robots(
      context,
      scope,
      sql`exists (
        -- reads tables of other features: health_snapshot
        select from health_snapshot h cross join lateral jsonb_to_recordset(h.snapshot -> 'disks') as disk (used_bytes float8, total_bytes float8)
        where h.org_id = r.org_id and h.robot_id = r.id and disk.used_bytes * 100 > disk.total_bytes * ${percent}::float8)`,
    ),
  config_drift: (_, scope, context) =>
    robots(
      context,
      scope,
      sql`exists (
        -- reads tables of other features: robot_config
        select from robot_config c where c.org_id = r.org_id and c.robot_id = r.id and c.state = 'drifted')`,
    ),
  agent_outdated: ({ below }, scope, context) => robots(context, scope, sql`true ${agentOlderThan(below ?? context.server_version)}`),
  metric_above: withValue((threshold) => sql`v.mean_max > ${threshold}::float8`),
  metric_below: withValue((threshold) => sql`v.mean_min < ${threshold}::float8`),
  metric_rate_above: withValue((threshold) => sql`v.rate_max > ${threshold}::float8`),
  metric_absent: (condition, scope, context) => {
    const since = new Date(context.now.getTime() - (condition.minutes ?? ABSENT_MINUTES) * MINUTE_MS);
    return robots(
      context,
      scope,
      // Before the metric was watched for that long, it is not known whether samples are absent.
      sql`exists (
        -- reads tables of other features: metric_watch, metric_value
        select from metric_watch w where w.org_id = r.org_id and w.key = ${keyOf(condition)} and w.since_at <= ${since})
        and not exists (
          select from metric_value v where v.org_id = r.org_id and v.key = ${keyOf(condition)} and v.robot_id = r.id and v.at >= ${since})`,
    );
  },
  deployment_failed: (_, scope, context) =>
    deployments(context, scope, sql`${HAS_FAILED} and d.finished_at > ${new Date(context.now.getTime() - FAILED_DEPLOYMENT_MS)}`),
  deployment_paused: (_, scope, context) => deployments(context, scope, sql`d.status = 'paused' and d.finished_at is null`),
};

/** A failing check is stored as its name, or as `name: message`. */
const failingCheck = (check: string): Statement<unknown> =>
  sql`and exists (select from jsonb_array_elements_text(h.failing) as f (check_text) where f.check_text = ${check} or starts_with(f.check_text, ${`${check}: `}))`;

/** Returns the query for the current matches of a rule's condition, within its scope. */
export const matchesOf = (condition: AlertCondition, scope: RuleScope, context: ConditionContext): Statement<unknown> =>
  MATCHES[condition.type](condition, scope, context);
