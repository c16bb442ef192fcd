import type { Hello } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { bool, jsonb, list, nullable, row, type RowOf, sql, text } from "../../kernel/sql.ts";
import type { NodeRun } from "../../link/index.ts";

const robotRef = row({ org_id: text, id: text });
export type RobotRef = RowOf<typeof robotRef>;

const presenceRow = row({ ...robotRef.columns, session_id: nullable(text) });
type Presence = RobotRef & Partial<RowOf<typeof presenceRow>>;

/**
 * Marks robots as offline if they are connected to this run of this node. If a session is given, it must also be the robot's current
 * session. Returns the robots that were online. Locks rows in the order of ids, so that transactions cannot deadlock. Finds each row by its
 * id in a lateral join, and checks the node only afterwards. Otherwise the query planner would scan all online robots for each of these
 * rows, if its statistics are from a time when none was online.
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

/** Returns the robots in the list that are decommissioned. */
export const listRemovedAmong = (db: Db, robots: readonly RobotRef[]): Promise<RobotRef[]> =>
  db.many(sql(robotRef)`
    select r.org_id, r.id
    from unnest(${list(robots.map(({ org_id }) => org_id))}::text[], ${list(robots.map(({ id }) => id))}::text[]) as v (org_id, id)
    join robot r on r.org_id = v.org_id and r.id = v.id
    where r.decommissioned_at is not null`);

const linkStateRow = row({ removed: bool, replaced: bool });

/**
 * Returns why the robot's connection must be closed: `removed`, or `replaced` by another computer that has not connected yet. Returns
 * `current` if it may stay open.
 */
export async function findLinkState(db: Db, org_id: string, id: string): Promise<"removed" | "replaced" | "current"> {
  const state = await db.maybe(sql(linkStateRow)`
    select decommissioned_at is not null as removed, node_id is not null and session_id is null as replaced
    from robot where org_id = ${org_id} and id = ${id}`);
  if (state === undefined || state.removed) return "removed";
  return state.replaced ? "replaced" : "current";
}

export const listOnlineOfSuspended = (db: Db, node: NodeRun): Promise<RobotRef[]> =>
  // reads tables of other features: org
  db.many(sql(robotRef)`
    select org_id, id from robot
    where org_id in (select id from org where status = 'suspended') and node_id = ${node.id} and node_epoch = ${node.epoch}`);

/**
 * Marks at most `limit` robots of dead nodes as offline, after skipping `offset`. A node is dead if it has stopped, has a newer epoch, or
 * is unknown. Skips from node to node in the index, so that it does not read the many robots of live nodes. Reads in the order of that
 * index, because for another order the query planner would search the whole table.
 */
export const setOfflineOfDeadNodes = (db: Db, self: NodeRun, limit: number, offset: number): Promise<RobotRef[]> =>
  // reads tables of other features: node
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

/**
 * Updates the times at which robots were last seen, in one statement. The times never decrease. Locks rows in the order of ids, so that two
 * nodes cannot deadlock.
 */
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

interface NewPresence {
  session_id: string;
  hello: Hello;
  /** The public key with which the robot authenticated, if known. */
  public_key: Buffer | undefined;
}

const runsRow = row({ id: text, runs: jsonb<string[]>() });

/**
 * Marks robots as online with these connections; each robot may appear once. Returns, for each robot, the previous runs (starts) of its
 * agent, newest first. Omits robots that are decommissioned or quarantined, or now have another key. Locks rows in the order of ids, so
 * that transactions cannot deadlock. Finds each row by its id in a lateral join, for the reason given at setOffline.
 */
export async function setOnline(
  db: Db,
  org_id: string,
  node: { id: string; epoch: number },
  comings: readonly NewPresence[],
  now: Date,
): Promise<Map<string, string[]>> {
  const texts = (of: (coming: NewPresence) => string | null) => list(comings.map(of));
  const rows = await db.many(sql(runsRow)`
    with before as (
      select r.id, r.runs, v.session_id, v.agent_version, v.platform, v.kinds, v.streams, v.run_id
      from (
        select * from unnest(${texts(({ hello }) => hello.robot_id)}::text[], ${texts(({ session_id }) => session_id)}::text[],
          ${texts(({ public_key }) => public_key?.toString("hex") ?? null)}::text[], ${texts(({ hello }) => hello.agent_version)}::text[],
          ${texts(({ hello }) => JSON.stringify(hello.platform))}::text[], ${texts(({ hello }) => JSON.stringify(hello.kinds))}::text[],
          ${texts(({ hello }) => JSON.stringify(hello.streams))}::text[], ${texts(({ hello }) => hello.run_id)}::text[])
          as v (id, session_id, public_key, agent_version, platform, kinds, streams, run_id)
        order by id) v
      cross join lateral (
        select id, runs, public_key, decommissioned_at, held_at from robot where org_id = ${org_id} and id = v.id for no key update) r
      where r.decommissioned_at is null and r.held_at is null and (v.public_key is null or r.public_key = decode(v.public_key, 'hex')))
    update robot r set node_id = ${node.id}, node_epoch = ${node.epoch}, session_id = before.session_id, connected_at = ${now}, last_seen_at = ${now},
      agent_version = before.agent_version, platform = before.platform::jsonb, kinds = before.kinds::jsonb, streams = before.streams::jsonb,
      runs = jsonb_path_query_array(jsonb_build_array(before.run_id) || (before.runs - before.run_id), '$[0 to 15]')
    from before where r.org_id = ${org_id} and r.id = before.id
    returning r.id, before.runs`);
  return new Map(rows.map(({ id, runs }) => [id, runs]));
}
