import type { Hello } from "@robofleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { json, jsonb, list, nullable, row, type RowOf, sql, text } from "../../kernel/sql.ts";

export interface NodeRun {
  id: string;
  epoch: number;
}

const robotRef = row({ org_id: text, id: text });
export type RobotRef = RowOf<typeof robotRef>;

const runsRow = row({ runs: jsonb<string[]>() });
export interface NewPresence {
  org_id: string;
  node: NodeRun;
  session_id: string;
  hello: Hello;
  /** The key that the hello was signed with, if it is known. */
  public_key: Buffer | undefined;
}

/**
 * The link's session holds the robot's presence from now on. Answers the runs of the agent that came before, the newest
 * first; undefined: the robot is decommissioned, held, or has another key by now.
 */
export async function setOnline(
  db: Db,
  { org_id, node, session_id, hello, public_key }: NewPresence,
  now: Date,
): Promise<string[] | undefined> {
  const before = await db.maybe(sql(runsRow)`
    with before as (
      select id, runs from robot
      where org_id = ${org_id} and id = ${hello.robot_id} and decommissioned_at is null and held_at is null
        and (${public_key ?? null}::bytea is null or public_key = ${public_key ?? null})
      for no key update)
    update robot r set node_id = ${node.id}, node_epoch = ${node.epoch}, session_id = ${session_id}, connected_at = ${now}, last_seen_at = ${now},
      agent_version = ${hello.agent_version}, platform = ${json(hello.platform)}, kinds = ${json(hello.kinds)}, streams = ${json(hello.streams)},
      runs = jsonb_path_query_array(jsonb_build_array(${hello.run_id}::text) || (before.runs - ${hello.run_id}::text), '$[0 to 15]')
    from before where r.org_id = ${org_id} and r.id = before.id
    returning before.runs`);
  return before?.runs;
}

const presenceRow = row({ ...robotRef.columns, session_id: nullable(text) });
export type Presence = RobotRef & Partial<RowOf<typeof presenceRow>>;

/**
 * Ends the presence of robots that this run of this node holds, and of no others; with a session, if it is still that one's.
 * Answers those that were online. In order of id, so that it and others that lock many never wait for each other.
 */
export const setOffline = (db: Db, node: NodeRun, robots: readonly Presence[]): Promise<RobotRef[]> =>
  db.many(sql(robotRef)`
    with gone as (
      select r.org_id, r.id
      from unnest(${list(robots.map(({ org_id }) => org_id))}::text[], ${list(robots.map(({ id }) => id))}::text[],
        ${list(robots.map(({ session_id }) => session_id ?? null))}::text[]) as v (org_id, id, session_id)
      join robot r on r.org_id = v.org_id and r.id = v.id
      where r.node_id = ${node.id} and r.node_epoch = ${node.epoch} and (v.session_id is null or r.session_id = v.session_id)
      order by r.org_id, r.id for no key update of r)
    update robot r set node_id = null, node_epoch = null, session_id = null
    from gone where r.org_id = gone.org_id and r.id = gone.id
    returning r.org_id, r.id`);

export const listOnlineOf = (db: Db, node: NodeRun): Promise<Presence[]> =>
  db.many(sql(presenceRow)`select org_id, id, session_id from robot where node_id = ${node.id} and node_epoch = ${node.epoch}`);

export const listOnlineOfSuspended = (db: Db, node: NodeRun): Promise<RobotRef[]> =>
  // reads: org
  db.many(sql(robotRef)`
    select org_id, id from robot
    where org_id in (select id from org where status = 'suspended') and node_id = ${node.id} and node_epoch = ${node.epoch}`);

/** Ends the presence of robots whose node does not live any more, `limit` at a time: its lease is over, or it runs anew. */
export const setOfflineOfDeadNodes = (db: Db, self: NodeRun, now: Date, limit: number): Promise<RobotRef[]> =>
  // reads: node
  db.many(sql(robotRef)`
    with gone as (
      select r.org_id, r.id from robot r
      where r.node_id is not null and not (r.node_id = ${self.id} and r.node_epoch = ${self.epoch})
        and not exists (select from node n where n.id = r.node_id and n.epoch = r.node_epoch and n.lease_expires_at > ${now})
      limit ${limit} for update skip locked)
    update robot r set node_id = null, node_epoch = null, session_id = null
    from gone where r.org_id = gone.org_id and r.id = gone.id
    returning r.org_id, r.id`);

export interface Seen extends RobotRef {
  at: Date;
}

/** One statement for many robots; times never go back. In order of id, so that two nodes never wait for each other. */
export const updateSeen = (db: Db, seen: readonly Seen[]): Promise<number> =>
  db.run(sql`
    with v as (
      select v.org_id, v.id, v.at
      from unnest(${list(seen.map(({ org_id }) => org_id))}::text[], ${list(seen.map(({ id }) => id))}::text[], ${list(seen.map(({ at }) => at))}::timestamptz[])
        as v (org_id, id, at)
      join robot r on r.org_id = v.org_id and r.id = v.id
      where r.last_seen_at is null or r.last_seen_at < v.at
      order by v.org_id, v.id for no key update of r)
    update robot r set last_seen_at = v.at from v where r.org_id = v.org_id and r.id = v.id`);
