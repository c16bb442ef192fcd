import type { Db } from "../../../kernel/db.ts";
import { bool, int, list, row, sql, type Statement, text } from "../../../kernel/sql.ts";

/** Name of the group of the robot `r`: by `site` or `label:KEY`; without `group_by` all robots are one group. */
function groupName(group_by: string | undefined): Statement<unknown> {
  if (group_by === undefined) return sql`''`;
  return group_by === "site" ? sql`r.site_id` : sql`coalesce(r.labels ->> ${group_by.slice("label:".length)}::text, '')`;
}

/** The deployment's targets `t` with their robots `r` that are in service. */
const members = (org_id: string, deployment_id: string) => sql`
  -- reads: robot, health_snapshot
  from deployment_target t join robot r on r.org_id = t.org_id and r.id = t.robot_id and r.decommissioned_at is null
  left join health_snapshot h on h.org_id = t.org_id and h.robot_id = t.robot_id
  where t.org_id = ${org_id} and t.deployment_id = ${deployment_id}`;

/** The robot is not connected, has the health status `error`, or is being updated by this deployment. */
const AWAY = sql`(r.node_id is null or h.snapshot ->> 'status' = 'error' or t.status in ('dispatched', 'downloading', 'staged', 'installing', 'verifying', 'rolling_back')) is true`;

const groupRow = row({ name: text, size: int, away: int });
export const listGroups = (db: Db, org_id: string, deployment_id: string, group_by: string | undefined) =>
  db.many(sql(groupRow)`
    select ${groupName(group_by)} as name, count(*)::int as size, count(*) filter (where ${AWAY})::int as away ${members(org_id, deployment_id)}
    group by 1`);

const memberRow = row({ id: text, name: text, away: bool });
export const listMembersOfGroups = (db: Db, org_id: string, deployment_id: string, group_by: string | undefined, ids: readonly string[]) =>
  db.many(sql(memberRow)`
    select t.id, ${groupName(group_by)} as name, ${AWAY} as away ${members(org_id, deployment_id)} and t.id = any(${list(ids)}::text[])`);

/**
 * Wakes at most `limit` targets that wait for a slot: of each group as many as it has room for, where a negative room means that too many
 * are unavailable. Robots that are already unavailable use no room. Offline ones are always woken, so that they wait for their robot and
 * not for a slot. Connected but unhealthy ones are woken unless too many are unavailable. Returns how many were woken.
 */
export const wakeGroups = (
  db: Db,
  org_id: string,
  deployment_id: string,
  group_by: string | undefined,
  rooms: readonly { name: string; room: number }[],
  limit: number,
) =>
  db.run(sql`
    with waiting as (
      select t.id, t.wave, ${groupName(group_by)} as name, r.node_id is null as offline, ${AWAY} as away,
        row_number() over (partition by ${groupName(group_by)}, ${AWAY} order by t.wave, t.id) as place
      ${members(org_id, deployment_id)} and t.status = 'queued' and t.waiting_for = 'slot'),
    chosen as (
      select w.id from waiting w join unnest(${list(rooms.map(({ name }) => name))}::text[], ${list(rooms.map(({ room }) => room))}::int[]) as g (name, room) on g.name = w.name
      where w.offline or (w.away and g.room >= 0) or (not w.away and w.place <= g.room) order by w.wave, w.id limit ${limit})
    update deployment_target t set waiting_for = null from chosen c where t.org_id = ${org_id} and t.deployment_id = ${deployment_id} and t.id = c.id`);
