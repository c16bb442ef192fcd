import type { Db } from "../../../kernel/db.ts";
import { bigint, bool, int, list, row, sql, text } from "../../../kernel/sql.ts";

/** Minimum number of deployments that one run considers per org, however many orgs there are. */
const DEPLOYMENTS_OF_ORG_MIN = 20;

/** `share`: the maximum number of targets of its deployment; `has_more`: its org may have more deployments. */
const claimRow = row({ org_id: text, deployment_id: text, order_number: bigint, id: text, share: int, has_more: bool });
/**
 * Targets that may be dispatched, without those of deployments in `skip`. Each org gets an equal share of `limit`, and so does each
 * deployment of an org, oldest first. Locks nothing: dispatch locks the deployments and checks again. Skips through the index from org to
 * org and from deployment to deployment, so the cost does not depend on the number of targets or on how many wait. The subselects keep the
 * planner on that plan.
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

/** Postpones claimed targets that could not be dispatched. Skips those that another transaction has locked: it is moving them. */
export const postponeClaimed = (db: Db, org_id: string, deployment_id: string, ids: readonly string[], not_before_at: Date) =>
  db.run(sql`
    with claimed as (
      select id from deployment_target
      where org_id = ${org_id} and deployment_id = ${deployment_id} and id = any(${list(ids)}::text[]) and status = 'queued' and waiting_for is null
      order by id for update skip locked)
    update deployment_target t set not_before_at = ${not_before_at} from claimed c
    where t.org_id = ${org_id} and t.deployment_id = ${deployment_id} and t.id = c.id`);
