import type { Db } from "../../kernel/db.ts";
import { bool, list, nullable, row, type RowOf, sql, text } from "../../kernel/sql.ts";
import type { NodeRun } from "../../link/index.ts";

const robotRef = row({ org_id: text, id: text });
export type RobotRef = RowOf<typeof robotRef>;

const presenceRow = row({ ...robotRef.columns, session_id: nullable(text) });
export type Presence = RobotRef & Partial<RowOf<typeof presenceRow>>;

/**
 * Ends the presence of robots that are connected to this run of this node; with a session, only if that is still current. Returns the robots
 * that were online. Locks rows in the order of ids, so that transactions cannot deadlock. Each row is locked by a lateral join, and all
 * before the condition is checked: with statistics from a time when no robot was online, the planner would scan all online robots once for
 * each of these.
 */
export const setOffline = (db: Db, node: NodeRun, robots: readonly Presence[]): Promise<RobotRef[]> =>
  db.many(sql(robotRef)`
    with locked as materialized (
      select r.*, v.session_id as of_session_id
      from (
        select * from unnest(${list(robots.map(({ org_id }) => org_id))}::text[], ${list(robots.map(({ id }) => id))}::text[],
          ${list(robots.map(({ session_id }) => session_id ?? null))}::text[]) as v (org_id, id, session_id)
        order by org_id, id) v
      cross join lateral (
        select org_id, id, node_id, node_epoch, session_id from robot where org_id = v.org_id and id = v.id for no key update) r),
    gone as (
      select org_id, id from locked
      where node_id = ${node.id} and node_epoch = ${node.epoch} and (of_session_id is null or session_id = of_session_id))
    update robot r set node_id = null, node_epoch = null, session_id = null
    from gone where r.org_id = gone.org_id and r.id = gone.id
    returning r.org_id, r.id`);

export const listOnlineOf = (db: Db, node: NodeRun): Promise<Presence[]> =>
  db.many(sql(presenceRow)`select org_id, id, session_id from robot where node_id = ${node.id} and node_epoch = ${node.epoch}`);

/** Returns those of these robots that are decommissioned. */
export const listRemovedAmong = (db: Db, robots: readonly RobotRef[]): Promise<RobotRef[]> =>
  db.many(sql(robotRef)`
    select r.org_id, r.id
    from unnest(${list(robots.map(({ org_id }) => org_id))}::text[], ${list(robots.map(({ id }) => id))}::text[]) as v (org_id, id)
    join robot r on r.org_id = v.org_id and r.id = v.id
    where r.decommissioned_at is not null`);

const linkStateRow = row({ removed: bool, replaced: bool });

/** Whether a robot's link must be closed: it was decommissioned, or another computer replaced it and has not connected yet. */
export async function findLinkState(db: Db, org_id: string, id: string): Promise<"removed" | "replaced" | "current"> {
  const state = await db.maybe(sql(linkStateRow)`
    select decommissioned_at is not null as removed, node_id is not null and session_id is null as replaced
    from robot where org_id = ${org_id} and id = ${id}`);
  if (state === undefined || state.removed) return "removed";
  return state.replaced ? "replaced" : "current";
}

export const listOnlineOfSuspended = (db: Db, node: NodeRun): Promise<RobotRef[]> =>
  // reads: org
  db.many(sql(robotRef)`
    select org_id, id from robot
    where org_id in (select id from org where status = 'suspended') and node_id = ${node.id} and node_epoch = ${node.epoch}`);

/**
 * Ends the presence of at most `limit` robots, after skipping `offset`, whose node is dead: it has stopped, runs with a new epoch, or is
 * unknown. Skips through the index from node to node, so the robots of live nodes, which are most, are not read. In the order of that
 * index, because with another order the planner would search the whole table.
 */
export const setOfflineOfDeadNodes = (db: Db, self: NodeRun, limit: number, offset: number): Promise<RobotRef[]> =>
  // reads: node
  db.many(sql(robotRef)`
    with recursive held (node_id) as (
      select min(node_id) from robot
      union all
      select (select min(node_id) from robot where node_id > held.node_id) from held where held.node_id is not null),
    gone as materialized (
      select r.org_id, r.id
      from held left join node n on n.id = held.node_id
      cross join lateral (
        select org_id, id from robot
        where node_id = held.node_id and node_epoch < coalesce(n.epoch + n.is_over::int, ${Number.MAX_SAFE_INTEGER}::bigint)
          and not (node_id = ${self.id} and node_epoch = ${self.epoch})
        order by node_epoch limit ${limit + offset} for update skip locked) r
      limit ${limit} offset ${offset})
    update robot r set node_id = null, node_epoch = null, session_id = null
    from gone where r.org_id = gone.org_id and r.id = gone.id
    returning r.org_id, r.id`);

export interface Seen extends RobotRef {
  at: Date;
}

/** Updates many robots in one statement; times never decrease. In the order of ids, so that two nodes cannot deadlock. */
export const updateSeen = (db: Db, seen: readonly Seen[]): Promise<number> =>
  db.run(sql`
    with v as (
      select v.org_id, v.id, v.at
      from (
        select * from unnest(${list(seen.map(({ org_id }) => org_id))}::text[], ${list(seen.map(({ id }) => id))}::text[], ${list(seen.map(({ at }) => at))}::timestamptz[])
          as v (org_id, id, at)
        order by org_id, id) v
      cross join lateral (select last_seen_at from robot where org_id = v.org_id and id = v.id for no key update) r
      where r.last_seen_at is null or r.last_seen_at < v.at)
    update robot r set last_seen_at = v.at from v where r.org_id = v.org_id and r.id = v.id`);
