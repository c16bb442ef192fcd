import type { WaitingFor } from "@roamfleet/protocol";
import type { Rollout, TargetSelector } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import {
  bigint,
  bool,
  int,
  jsonb,
  list,
  nullable,
  row,
  type RowOf,
  sql,
  type Statement,
  text,
  textOf,
  timestamptz,
} from "../../../kernel/sql.ts";
import { type DeploymentKind, targetRow } from "./rows.ts";

/** Queries for the rows that the background loops claim. They keep no locks: each handler locks the deployment and checks again. */

/** Columns that identify a target and its deployment. */
const targetItemRow = row({ org_id: text, deployment_id: text, id: text });

/** Condition: neither the target nor its deployment is in `skip`. */
const notIn = (skip: readonly string[], id: Statement<unknown>, deployment_id: Statement<unknown>): Statement<unknown> =>
  sql`${id} <> all(${list(skip)}::text[]) and ${deployment_id} <> all(${list(skip)}::text[])`;

/** `work`: the kind of work that is due. */
const dueRow = row({ org_id: text, id: text, work: text });

/**
 * Selects `limit` rows of `rows` in turns between orgs: the earliest row of each org, then the second of each, and so on. So an org with
 * many rows cannot starve the others. `rows` selects org_id, id, at and work.
 */
const inTurns = (rows: Statement<unknown>, limit: number) => sql(dueRow)`
  select org_id, id, work from (
    select *, row_number() over (partition by org_id order by at, id) as turn from (${rows}) as found) as in_turns
  order by turn, at, id limit ${limit}`;

/** Minimum number of deployments that one run considers per org, however many orgs there are. */
const DEPLOYMENTS_OF_ORG_MIN = 20;

/**
 * `share` is the maximum number of targets to claim of the deployment. `has_more` is whether the org may have more deployments to claim.
 */
const claimRow = row({ org_id: text, deployment_id: text, order_number: bigint, id: text, share: int, has_more: bool });
export type Claimed = RowOf<typeof claimRow>;
/**
 * Selects targets that may be dispatched, except targets of deployments in `skip`. Each org gets an equal share of `limit`, and each
 * deployment an equal share of its org, oldest first. Locks nothing: dispatch locks the deployments and checks again. The recursive queries
 * jump through the index from org to org and from deployment to deployment. So the cost does not depend on the number of targets or on how
 * many wait. The subselects make the planner keep this plan.
 */
export const claimable = (now: Date, limit: number, skip: readonly string[] = []) =>
  sql(claimRow)`
    with recursive waiting_org as (
      (select org_id from deployment_target where status = 'queued' and waiting_for is null order by org_id limit 1)
      union all
      select n.org_id from waiting_org o cross join lateral (
        select t.org_id from deployment_target t where t.status = 'queued' and t.waiting_for is null and t.org_id > o.org_id
        order by t.org_id limit 1) n),
    cap as materialized (
      select greatest(${DEPLOYMENTS_OF_ORG_MIN}::int, ${limit}::int / greatest(1, count(*)))::int as deployments from waiting_org),
    claimable as materialized (
      select c.*, cap.deployments as cap from waiting_org o cross join cap cross join lateral (
        with recursive waiting as (
          (select t.deployment_id from deployment_target t where t.org_id = o.org_id and t.status = 'queued' and t.waiting_for is null
            order by t.deployment_id limit 1)
          union all
          select n.deployment_id from waiting w cross join lateral (
            select t.deployment_id from deployment_target t
            where t.org_id = o.org_id and t.status = 'queued' and t.waiting_for is null and t.deployment_id > w.deployment_id
            order by t.deployment_id limit 1) n)
        select o.org_id, w.deployment_id,
          (select d.order_number from deployment d where d.org_id = o.org_id and d.id = w.deployment_id) as order_number
        from waiting w
        where w.deployment_id <> all(${list(skip)}::text[])
          and (select d.status in ('queued', 'in_progress') and d.fan_out_done_at is not null and d.stop_requested_at is null and d.rollback_requested_at is null
            and (d.expires_at is null or d.expires_at > ${now})
            from deployment d where d.org_id = o.org_id and d.id = w.deployment_id)
          and (select true from deployment_target t
            where t.org_id = o.org_id and t.deployment_id = w.deployment_id and t.status = 'queued' and t.waiting_for is null
              and coalesce(t.not_before_at, '-infinity') <= ${now}
            order by coalesce(t.not_before_at, '-infinity'), t.id limit 1)
        limit cap.deployments) c),
    chosen as materialized (
      select org_id, deployment_id, order_number, cap from (
        select *, row_number() over (partition by org_id order by order_number) as turn from claimable) as in_turns
      order by turn, order_number limit ${limit}),
    shared as (
      select org_id, deployment_id, order_number, count(*) over (partition by org_id) >= cap or count(*) over () = ${limit}::int as has_more,
        greatest(1, ${limit}::int / (select count(distinct org_id) from chosen) / count(*) over (partition by org_id))::int as share
      from chosen)
    select s.org_id, s.deployment_id, s.order_number, t.id, s.share, s.has_more from shared s cross join lateral (
      select t.id from deployment_target t
      where t.org_id = s.org_id and t.deployment_id = s.deployment_id and t.status = 'queued' and t.waiting_for is null
        and coalesce(t.not_before_at, '-infinity') <= ${now}
      order by coalesce(t.not_before_at, '-infinity'), t.id limit s.share) t`;
export const listClaimable = (db: Db, now: Date, limit: number, skip: readonly string[] = []) => db.many(claimable(now, limit, skip));

/** Postpones claimed targets that could not be dispatched. Skips targets locked by another transaction, which is changing them. */
export const postponeClaimed = (db: Db, org_id: string, ids: readonly string[], not_before_at: Date) =>
  db.run(sql`
    with claimed as (
      select id from deployment_target
      where org_id = ${org_id} and id = any(${list(ids)}::text[]) and status = 'queued' and waiting_for is null order by id for update skip locked)
    update deployment_target t set not_before_at = ${not_before_at} from claimed c where t.org_id = ${org_id} and t.id = c.id`);

/** Condition: the rollout may be advanced, because no stop, cancellation or rollback was requested. */
const GOES_ON = sql`stop_requested_at is null and cancel_requested_at is null and rollback_requested_at is null`;

/** Selects deployments with an unfinished fan-out and rollouts that are due for a check, in turns between orgs, except those in `skip`. */
export const listAdvancing = (db: Db, now: Date, limit: number, skip: readonly string[]) =>
  db.many(
    inTurns(
      sql`select org_id, id, fan_out_at as at, 'fan-out' as work from deployment
        where fan_out_at is not null and fan_out_done_at is null and finished_at is null and id <> all(${list(skip)}::text[])
        union all
        select org_id, id, step_at, 'rollout' from deployment
        where finished_at is null and step_at <= ${now} and fan_out_done_at is not null and ${GOES_ON} and id <> all(${list(skip)}::text[])`,
      limit,
    ),
  );

/** When the next rollout is due for a check. */
export const nextStepAt = async (db: Db): Promise<Date | null> =>
  (
    await db.maybe(
      sql(row({ step_at: timestamptz }))`
        -- across orgs: the earliest of all
        select step_at from deployment where finished_at is null and step_at is not null and ${GOES_ON} order by step_at limit 1`,
    )
  )?.step_at ?? null;

/** Maximum deployments whose targets one run ends. */
const ENDING_DEPLOYMENTS_MAX = 20;

/**
 * Condition: target t must be ended, by the same rules as `decideEnding`. Deployment d has expired, or its end was requested. A robot that
 * is downloading is asked to stop only once. It was not asked yet in two cases: its app's desired state still comes from the target, or the
 * target's deadline is absent or later than `stopped_by`.
 */
const mustEnd = (now: Date, stopped_by: Date) => sql`(
  t.status in ('pending', 'queued')
  or (t.status in ('dispatched', 'downloading', 'staged') and (d.expires_at <= ${now}
    or ((d.cancel_requested_at is not null or d.rollback_requested_at is not null) and (coalesce(t.deadline_at, 'infinity') > ${stopped_by} or exists (
      select from robot_app a where a.org_id = t.org_id and a.robot_id = t.robot_id and a.app = t.subject and a.target_id = t.id)))))
  or (t.status = 'rolling_back' and t.reverting and d.expires_at <= ${now})
  or (t.status = 'applied' and d.status = 'rolling_back'))`;

/**
 * Selects the targets to end of deployments that are cancelled, roll back, were stopped or have expired, except those in `skip`. Selects
 * deployments in turns between orgs, and at most `limit` targets of each deployment.
 */
export const listEndings = (db: Db, now: Date, stopped_by: Date, limit: number, skip: readonly string[]) => {
  const of_deployment = sql`from deployment_target t where t.org_id = d.org_id and t.deployment_id = d.id and t.id <> all(${list(skip)}::text[]) and ${mustEnd(now, stopped_by)}`;
  const expired = sql`coalesce(expires_at <= ${now}, false)`;
  return db.many(sql(row({ ...targetItemRow.columns, work: text }))`
    with ending as (
      select *, coalesce(cancel_requested_at, rollback_requested_at) as at, case when cancel_requested_at is null then 'rollback' else 'cancellation' end as work
      from deployment where finished_at is null and (cancel_requested_at is not null or rollback_requested_at is not null)
      union all
      select *, expires_at, 'expiry' from deployment
      where finished_at is null and expires_at <= ${now} and cancel_requested_at is null and rollback_requested_at is null
      union all
      select *, step_at, 'stop' from deployment
      where finished_at is null and step_at is not null and stop_requested_at is not null and not ${expired} and cancel_requested_at is null and rollback_requested_at is null)
    select e.org_id, e.id as deployment_id, found.id, e.work from (${inTurns(
      sql`select d.org_id, d.id, d.at, d.work from ending d
        where d.id <> all(${list(skip)}::text[]) and (d.count_pending + d.count_queued > 0 or (d.count_active > 0 and d.work <> 'stop') or (d.status = 'rolling_back' and d.count_applied > 0))
          and (select true ${of_deployment} limit 1)`,
      ENDING_DEPLOYMENTS_MAX,
    )}) e
    join deployment d on d.org_id = e.org_id and d.id = e.id
    cross join lateral (select t.id ${of_deployment} order by t.id limit ${limit}) found`);
};

/** Locks the targets to end of one deployment. The caller has locked the row of the deployment. */
export const lockEndings = (db: Db, org_id: string, deployment_id: string, now: Date, stopped_by: Date, limit: number) =>
  db.many(sql(targetRow)`
    select ${targetRow.of("t")} from deployment d join deployment_target t on t.org_id = d.org_id and t.deployment_id = d.id
    where d.org_id = ${org_id} and d.id = ${deployment_id} and ${mustEnd(now, stopped_by)}
    order by t.id limit ${limit} for update of t`);

/**
 * Maximum late targets among which a run takes turns between orgs. If a large fleet times out at one moment, numbering all its targets
 * would take as long as handling them.
 */
const LATE_CONSIDERED = 10_000;
/** Selects targets past their deadline, in turns between orgs, except those in `skip`. */
export const listLate = (db: Db, now: Date, limit: number, skip: readonly string[]) =>
  db.many(sql(targetItemRow)`
    select org_id, deployment_id, id from (
      select *, row_number() over (partition by org_id order by deadline_at, id) as turn from (
        select org_id, deployment_id, id, deadline_at from deployment_target
        where deadline_at <= ${now} and ${notIn(skip, sql`id`, sql`deployment_id`)} order by deadline_at limit ${LATE_CONSIDERED}) as late) as in_turns
    order by turn, deadline_at, id limit ${limit}`);

/** Maximum targets that the repair loop wakes per condition and run. */
export const MISSED_PER_TURN = 1_000;

/**
 * For each value of `waiting_for`: the condition under which a waiting target t may continue although nothing woke it. Its wake-up was
 * lost, or was skipped while another transaction had locked the target.
 */
const MISSED = {
  robot_online: sql`-- reads tables of other features: robot
    join robot r on r.org_id = t.org_id and r.id = t.robot_id where r.node_id is not null`,
  artifact: sql`-- reads tables of other features: release
    join release r on r.org_id = t.org_id and r.id = t.release_id where r.artifact_state <> 'awaiting_upload'`,
  previous_deployment: sql`where not exists (
    select from deployment_target o where o.org_id = t.org_id and o.robot_id = t.robot_id and o.kind = t.kind
      and o.status not in ('applied', 'failed', 'rolled_back', 'cancelled') and o.status in ('installing', 'verifying', 'rolling_back'))`,
  approval: sql`-- reads tables of other features: robot
    join robot r on r.org_id = t.org_id and r.id = t.robot_id where r.approval_requested_at is null`,
} satisfies Partial<Record<WaitingFor, Statement<unknown>>>;
export type Missable = keyof typeof MISSED;
export const MISSABLE = Object.keys(MISSED) as Missable[];

/** Selects targets of any org whose awaited condition already holds, except those in `skip`. */
export const listMissed = (db: Db, waiting_for: Missable, skip: readonly string[]) =>
  db.many(sql(targetItemRow)`
    select t.org_id, t.deployment_id, t.id from deployment_target t ${MISSED[waiting_for]}
      and t.status = 'queued' and t.waiting_for = ${waiting_for} and ${notIn(skip, sql`t.id`, sql`t.deployment_id`)}
    limit ${MISSED_PER_TURN}`);

/** Wakes these targets unless they changed; skips those that another transaction has locked. Returns how many. */
export const wakeMissed = (db: Db, waiting_for: Missable, targets: readonly RowOf<typeof targetItemRow>[]) =>
  db.run(sql`
    with missed as (
      select t.org_id, t.deployment_id, t.id
      from unnest(${list(targets.map((t) => t.org_id))}::text[], ${list(targets.map((t) => t.deployment_id))}::text[], ${list(targets.map((t) => t.id))}::text[])
        as m (org_id, deployment_id, id)
      join deployment_target t on t.org_id = m.org_id and t.deployment_id = m.deployment_id and t.id = m.id
      where t.status = 'queued' and t.waiting_for = ${waiting_for}
      for update of t skip locked)
    update deployment_target t set waiting_for = null from missed m where t.org_id = m.org_id and t.deployment_id = m.deployment_id and t.id = m.id`);

const scheduledRow = row({
  org_id: text,
  id: text,
  kind: textOf<DeploymentKind>(),
  robot_id: nullable(text),
  fleet_id: nullable(text),
  target_selector: nullable(jsonb<TargetSelector>()),
  app: nullable(text),
  rollout: jsonb<Rollout>(),
  retry_of: nullable(text),
  rollback_of: nullable(text),
});
export type Due = RowOf<typeof scheduledRow>;
/**
 * Selects due deployments in turns between orgs. Excludes deployments in `skip`, deployments of suspended orgs, and rows that another node
 * has deleted because it is starting the deployment. `for key share` conflicts only with this deletion. So two nodes that list at the same time
 * get the same rows in the same order. A postponed deployment is sorted by its new time. The recursive
 * query jumps through the index from org to org, so deployments that are not due cost nothing. The lateral join with a limit makes the
 * planner read each claimed deployment by its key: it estimates thousands of due rows, and would otherwise read the whole table of
 * deployments.
 */
export const listDue = (db: Db, now: Date, limit: number, skip: readonly string[]) =>
  db.many(sql(scheduledRow)`
    -- across orgs: due deployments, by time
    -- reads tables of other features: org
    with recursive due_org as (
      (select org_id from deployment_due order by org_id limit 1)
      union all
      select n.org_id from due_org o cross join lateral (select d.org_id from deployment_due d where d.org_id > o.org_id order by d.org_id limit 1) n)
    select ${scheduledRow.of("d")} from (
      select * from (
        select due.*, row_number() over (partition by due.org_id order by due.at, due.id) as turn
        from due_org o cross join lateral (
          select d.org_id, d.id, coalesce(d.not_before_at, d.due_at) as at from deployment_due d
          where d.org_id = o.org_id and coalesce(d.not_before_at, d.due_at) <= ${now} and d.due_at <= ${now} and d.id <> all(${list(skip)}::text[])
          order by coalesce(d.not_before_at, d.due_at) limit ${limit} for key share skip locked) due
        where o.org_id not in (select id from org where status = 'suspended')) as in_turns
      order by turn, at, id limit ${limit}) as claimed
    cross join lateral (select * from deployment d where d.org_id = claimed.org_id and d.id = claimed.id limit 1) d
    order by claimed.turn, claimed.at, claimed.id`);

export const nextDueAt = (db: Db, skip: readonly string[]) =>
  // reads tables of other features: org
  db.one(sql(row({ due_at: nullable(timestamptz) }))`
    select min(coalesce(not_before_at, due_at)) as due_at from deployment_due
    where org_id not in (select id from org where status = 'suspended') and id <> all(${list(skip)}::text[])`);
