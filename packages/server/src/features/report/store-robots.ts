import { ID_PREFIXES, type ReportedRobotsKind } from "@roamfleet/protocol";
import { type Caller, seesWholeOrg, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { madeSince } from "../../kernel/page.ts";
import { int, list, nullable, type RowOf, sql, type Statement, text, textOf, timestamptz, unprepared, wiredRow } from "../../kernel/sql.ts";
import { groupSentence } from "./sentences.ts";
import { newestOfEach, partOf, rankColumns } from "./part.ts";

/** Maximum entries of the timeline that a report reads, for each kind. */
const ENTRIES_MAX = 10_000;

/** Kinds of timeline entries, and the groups that their robots belong to. */
const GROUP_OF: Record<string, ReportedRobotsKind> = {
  "robot.disconnected": "went_offline",
  "robot.held": "quarantined",
  "deployment.failed": "install_failed",
  "deployment.rolled_back": "install_failed",
  "config.failed": "config_failed",
  "config.rolled_back": "config_failed",
};

const groupRow = wiredRow({
  kind: textOf<ReportedRobotsKind>(),
  site_id: text,
  site_name: text,
  deployment_id: nullable(text),
  robot_count: int,
  offline_count: int,
  robot_id: text,
  robot_name: text,
  summary: text,
  at: nullable(timestamptz),
  ...rankColumns,
});

/**
 * Returns the robots that lost their connection, failed to install or were quarantined since a time, in groups by site and deployment. For
 * each kind of entry, reads the newest `ENTRIES_MAX` from the index of the timeline.
 */
export async function readRobotEvents(db: Db, caller: Caller, since: Date) {
  const { org_id } = caller;
  const seen = visible(caller, "r.site_id", "r.fleet_id");
  // reads tables of other features: robot
  const near = seesWholeOrg(caller) ? sql`` : sql`and e.robot_id in (select r.id from robot r where r.org_id = ${org_id} ${seen})`;
  return await readGroups(
    db,
    sql`
    -- reads tables of other features: timeline_entry, robot
    with entry as materialized (
      select k.group_kind, e.* from unnest(${list(Object.keys(GROUP_OF))}::text[], ${list(Object.values(GROUP_OF))}::text[]) as k (kind, group_kind)
      cross join lateral (
        select e.kind, e.robot_id, e.id, e.at, e.data ->> 'deployment_id' as deployment_id, e.data ->> 'reason' as reason
        from timeline_entry e
        where e.org_id = ${org_id} and e.kind = k.kind ${madeSince(ID_PREFIXES.event, since)} ${near} order by e.id desc limit ${ENTRIES_MAX}) e
    ), scan as materialized (select coalesce(max(n), 0) >= ${ENTRIES_MAX} as truncated from (select count(*) as n from entry group by kind) c),
    of_robot as (
      select group_kind, deployment_id, robot_id, max(id) as id, max(at) as at from entry where reason is distinct from 'rollback_requested' group by 1, 2, 3),
    found as (
      select e.group_kind as kind, r.site_id, e.deployment_id, count(*)::int as robot_count, count(*) filter (where r.node_id is null)::int as offline_count,
        max(e.id) as id, max(e.at) as at
      from of_robot e join robot r on r.org_id = ${org_id} and r.id = e.robot_id
      where true ${seen} group by 1, 2, 3)
    select n.*, e.robot_id, e.summary from (${newestOfEach(sql`select 'events' as part, found.*, scan.truncated from found cross join scan`)}) n
    cross join lateral (
      -- The limit makes PostgreSQL look up single entries, instead of joining all of them.
      select robot_id, summary from timeline_entry where org_id = ${org_id} and id = n.id limit 1) e`,
    org_id,
  );
}

/**
 * Returns the robots that are offline, failing or quarantined, in groups by site. Offline robots have no index, because it would be written
 * at each connection: they take one scan of the org's robots.
 */
export async function readRobotStates(db: Db, caller: Caller) {
  const { org_id } = caller;
  const seen = visible(caller, "r.site_id", "r.fleet_id");
  return await readGroups(
    db,
    sql`
    -- reads tables of other features: robot, health_snapshot
    with state as materialized (
      select 'offline' as kind, r.site_id, r.id as robot_id, r.node_id, r.last_seen_at as at, '' as summary
      from robot r where r.org_id = ${org_id} and r.decommissioned_at is null and r.node_id is null and r.last_seen_at is not null ${seen}
      union all
      select 'failing', r.site_id, r.id, r.node_id, h.received_at, array_to_string(array(select jsonb_array_elements_text(h.failing)), ', ')
      from health_snapshot h join robot r on r.org_id = h.org_id and r.id = h.robot_id
      where h.org_id = ${org_id} and h.state = 'failing' and r.decommissioned_at is null ${seen}
      union all
      select 'held', r.site_id, r.id, r.node_id, r.held_at, ''
      from robot r where r.org_id = ${org_id} and r.held_at is not null and r.decommissioned_at is null ${seen}
    ), found as (
      select kind, site_id, count(*)::int as robot_count, count(*) filter (where node_id is null)::int as offline_count, max(at) as at from state group by 1, 2)
    select n.*, s.robot_id, s.summary
    from (${newestOfEach(sql`select 'states' as part, found.*, null::text as deployment_id, kind || site_id as id, false as truncated from found`)}) n
    cross join lateral (
      select robot_id, summary from state s where s.kind = n.kind and s.site_id = n.site_id order by s.at desc, s.robot_id limit 1) s`,
    org_id,
  );
}

/**
 * Returns the newest groups with the names of their sites and robots, those with the newest entries first. Unprepared: a plan for any
 * caller and period took four times as long for a caller of one fleet.
 */
async function readGroups(db: Db, groups: Statement<unknown>, org_id: string) {
  const rows = await db.many(
    unprepared(sql(groupRow)`
    -- reads tables of other features: robot, site
    select n.kind, n.site_id, coalesce((select name from site where org_id = ${org_id} and id = n.site_id), n.site_id) as site_name, n.deployment_id,
      n.robot_count, n.offline_count, n.robot_id, coalesce((select name from robot where org_id = ${org_id} and id = n.robot_id), n.robot_id) as robot_name,
      n.summary, n.at, n.total, n.truncated
    from (${groups}) n
    order by n.at desc, n.id desc`),
  );
  return partOf(rows, toItem);
}

const toItem = ({ total: _total, truncated: _truncated, ...group }: RowOf<typeof groupRow>) => ({
  ...group,
  summary: groupSentence(group),
});
