import type { Db } from "../../../kernel/db.ts";
import { bool, int, list, row, sql, type Statement, text } from "../../../kernel/sql.ts";

/** Name of the group that the robot `r` is in: `site`, `label:KEY`, or all in one. */
function groupName(group_by: string | undefined): Statement<unknown> {
  if (group_by === undefined) return sql`''`;
  return group_by === "site" ? sql`r.site_id` : sql`coalesce(r.labels ->> ${group_by.slice("label:".length)}::text, '')`;
}

/** The deployment's targets `t` with their robots, as far as those are in service. */
const members = (org_id: string, deployment_id: string) => sql`
  -- reads: robot, health_snapshot
  from deployment_target t join robot r on r.org_id = t.org_id and r.id = t.robot_id and r.decommissioned_at is null
  left join health_snapshot h on h.org_id = t.org_id and h.robot_id = t.robot_id
  where t.org_id = ${org_id} and t.deployment_id = ${deployment_id}`;

/** Not connected, unwell, or at work for this deployment. */
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
 * Lets those that wait for a slot try, `limit` together: as many of each group as it has room for, less than 0 being more
 * away than may be. Robots that are away take no room: one that is not connected tries anyway, to be known to wait for its
 * robot and for no other; one that is connected but unwell goes where no more are away than may be. Answers how many.
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
