import { idFloor } from "@roamfleet/clock";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { int, jsonb, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

/** Maximum tolerated difference between `created_at` of a row and the time in its id. They differ, for example, after a clock was set. */
const AHEAD_MS_MAX = 3_600_000;

const robotsRow = row({ total: int, online: int, never_connected: int, held: int, lost: int, last_lost_at: nullable(timestamptz) });

/**
 * Counts the robots that are not decommissioned, in one scan. An index-only scan is not possible, because heartbeats constantly
 * update the rows.
 */
export const countRobots = (db: Db, caller: Caller, lost_since: Date): Promise<RowOf<typeof robotsRow>> =>
  // reads tables of other features: robot
  db.one(sql(robotsRow)`
    select count(*)::int as total, count(node_id)::int as online, count(held_at)::int as held,
      count(*) filter (where last_seen_at is null and node_id is null)::int as never_connected,
      count(*) filter (where node_id is null and last_seen_at >= ${lost_since})::int as lost,
      max(last_seen_at) filter (where node_id is null) as last_lost_at
    from robot where org_id = ${caller.org_id} and decommissioned_at is null ${visible(caller, "site_id", "fleet_id")}`);

const statesRow = row({ unhealthy: int, behind: int, failed: int, drifted: int, pending: int });

/** Counts the robots that need attention. Uses partial indexes, because such states are rare. */
export const countRobotsWith = (db: Db, caller: Caller): Promise<RowOf<typeof statesRow>> => {
  const { org_id } = caller;
  const seen = visible(caller, "r.site_id", "r.fleet_id");
  // reads tables of other features: robot, robot_app, robot_config, health_snapshot
  return db.one(sql(statesRow)`
    select
      (select count(*)::int from health_snapshot h join robot r on r.org_id = h.org_id and r.id = h.robot_id
        where h.org_id = ${org_id} and h.state = 'failing' and r.decommissioned_at is null ${seen}) as unhealthy,
      (select count(distinct r.id)::int from robot_app a join robot r on r.org_id = a.org_id and r.id = a.robot_id
        where a.org_id = ${org_id} and a.state = 'behind' and r.decommissioned_at is null ${seen}) as behind,
      (select count(distinct r.id)::int from robot_app a join robot r on r.org_id = a.org_id and r.id = a.robot_id
        where a.org_id = ${org_id} and a.state = 'failed' and r.decommissioned_at is null ${seen}) as failed,
      (select count(distinct r.id)::int from robot_config c join robot r on r.org_id = c.org_id and r.id = c.robot_id
        where c.org_id = ${org_id} and c.state = 'drifted' and r.decommissioned_at is null ${seen}) as drifted,
      (select count(distinct r.id)::int from robot_config c join robot r on r.org_id = c.org_id and r.id = c.robot_id
        where c.org_id = ${org_id} and c.state = 'pending' and r.decommissioned_at is null ${seen}) as pending`);
};

const deploymentsRow = row({
  scheduled: int,
  queued: int,
  in_progress: int,
  paused: int,
  waiting_gate: int,
  failed: int,
  following: int,
  config_in_progress: int,
  config_paused: int,
  config_waiting_gate: int,
});

/** Condition: a robot of the deployment in the row `placed` waits until the deployment is promoted. */
export const WAITS_FOR_GATE = sql`status = 'in_progress' and wave_count > 1 and exists (
  -- reads tables of other features: deployment_target
  select from deployment_target t where t.org_id = placed.org_id and t.deployment_id = placed.id and t.waiting_for = 'gate')`;

/**
 * Counts the deployments that the caller may see: the unfinished ones, and the failed ones created since `failed_since`. A deployment
 * belongs to the present site and fleet of its robot or fleet, or to those that its selection names; otherwise to the whole org. Deployments to
 * robots that follow their fleet are counted separately, because one release may create thousands of them.
 */
export const countDeployments = (db: Db, caller: Caller, failed_since: Date): Promise<RowOf<typeof deploymentsRow>> =>
  // reads tables of other features: deployment, robot, fleet
  db.one(sql(deploymentsRow)`
    with open as (
      select id, org_id, kind, status, wave_count, robot_id, fleet_id, target_selector, created_by, target_kind from deployment where org_id = ${caller.org_id} and finished_at is null
      union all
      select id, org_id, kind, status, wave_count, robot_id, fleet_id, target_selector, created_by, target_kind from deployment
      where org_id = ${caller.org_id} and kind = 'release' and status = 'failed' and created_at >= ${failed_since}
        and id >= ${idFloor("dep", new Date(failed_since.getTime() - AHEAD_MS_MAX))}
    ), placed as (
      select d.org_id, d.id, d.status, d.wave_count, coalesce(r.site_id, f.site_id, d.target_selector ->> 'site_id') as site_id, coalesce(r.fleet_id, f.id) as fleet_id,
        case when d.kind = 'config' then 'config' when d.target_kind = 'robot' and d.created_by ->> 'type' = 'system' then 'follow' else 'request' end as cause
      from open d left join robot r on r.org_id = d.org_id and r.id = d.robot_id left join fleet f on f.org_id = d.org_id and f.id = coalesce(d.fleet_id, d.target_selector ->> 'fleet_id'))
    select
      count(*) filter (where cause = 'request' and status = 'scheduled')::int as scheduled,
      count(*) filter (where cause = 'request' and status = 'queued')::int as queued,
      count(*) filter (where cause = 'request' and status = 'in_progress')::int as in_progress,
      count(*) filter (where cause = 'request' and status = 'paused')::int as paused,
      count(*) filter (where cause = 'request' and ${WAITS_FOR_GATE})::int as waiting_gate,
      count(*) filter (where cause = 'request' and status = 'failed')::int as failed,
      count(*) filter (where cause = 'follow' and status <> 'failed')::int as following,
      count(*) filter (where cause = 'config' and status = 'in_progress')::int as config_in_progress,
      count(*) filter (where cause = 'config' and status = 'paused')::int as config_paused,
      count(*) filter (where cause = 'config' and ${WAITS_FOR_GATE})::int as config_waiting_gate
    from placed where org_id = ${caller.org_id} ${visible(caller, "site_id", "fleet_id")}`);

const unhealthyRow = row({ id: text, name: text, fleet_id: text, failing: jsonb<string[]>() });

export const listUnhealthy = (db: Db, caller: Caller, limit: number): Promise<RowOf<typeof unhealthyRow>[]> =>
  // reads tables of other features: robot, health_snapshot
  db.many(sql(unhealthyRow)`
    select r.id, r.name, r.fleet_id, h.failing from health_snapshot h join robot r on r.org_id = h.org_id and r.id = h.robot_id
    where h.org_id = ${caller.org_id} and h.state = 'failing' and r.decommissioned_at is null ${visible(caller, "r.site_id", "r.fleet_id")}
    order by h.robot_id desc limit ${limit}`);
