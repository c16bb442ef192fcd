import { ID_PREFIXES } from "@roamfleet/protocol";
import type { AlertRuleTest } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { madeSince } from "../../kernel/page.ts";
import { int, nullable, row, sql, type Statement, timestamptz } from "../../kernel/sql.ts";
import { wireTime } from "../../kernel/time.ts";
import { GROUP_WINDOW_MS } from "./incident-state.ts";
import { FAILED_DEPLOYMENT_MS, HAS_FAILED, robotsInUse, SITE_OF_DEPLOYMENT } from "./store-conditions.ts";
import type { RuleRow } from "./store-rules.ts";

/** Maximum timeline entries that one test reads; if there are more, it reads the newest. */
const ENTRIES_MAX = 200_000;

interface Period {
  since: Date;
  now: Date;
}

const pastRow = row({ match_count: int, incident_count: int, entry_count: int, first_at: nullable(timestamptz) });

/**
 * Returns how often a rule would have matched and opened an incident since a time. Null for conditions of whose past state nothing is
 * stored. Applies the present scope: robots and deployments count where they are now.
 */
export async function readPast(db: Db, org_id: string, rule: RuleRow, period: Period): Promise<AlertRuleTest["past"]> {
  const read = PAST[rule.condition.type];
  if (read === undefined) return null;
  const { match_count, incident_count, entry_count, first_at } = await db.one(counted(read(org_id, rule, period)));
  const is_whole = entry_count < ENTRIES_MAX || first_at === null;
  return { since: wireTime(is_whole ? period.since : first_at), match_count, incident_count };
}

/** Queries for past matches: when each became due, its group, and the number of rows that were read and the time of the first. */
const PAST: Partial<Record<RuleRow["condition"]["type"], (org_id: string, rule: RuleRow, period: Period) => Statement<unknown>>> = {
  robot_offline: (org_id, rule, { since, now }) => sql`
    with entry as materialized (
      -- reads tables of other features: timeline_entry
      select robot_id, id, at, kind from timeline_entry
      where org_id = ${org_id} and kind in ('robot.connected', 'robot.disconnected') ${madeSince(ID_PREFIXES.event, since)}
      order by id desc limit ${ENTRIES_MAX}),
    state as (
      select robot_id, at, kind, lead(at, 1, ${now}::timestamptz) over (partition by robot_id order by id) as until_at from entry)
    select s.at + ${rule.for_seconds} * interval '1 second' as due_at, ${rule.fleet_id === null ? sql`r.site_id` : sql`r.fleet_id`} as group_id,
      (select count(*) from entry)::int as entry_count, (select min(at) from entry) as first_at
    from state s join (${robotsInUse(org_id, rule)}) r on r.subject_id = s.robot_id
    where s.kind = 'robot.disconnected' and s.until_at >= s.at + ${rule.for_seconds} * interval '1 second'`,
  deployment_failed: (org_id, { site_id, fleet_id, for_seconds }, { since, now }) => sql`
    -- reads tables of other features: deployment, robot, fleet
    select d.finished_at + ${for_seconds} * interval '1 second' as due_at, coalesce(r.fleet_id, f.id, ${SITE_OF_DEPLOYMENT}) as group_id, 0 as entry_count,
      null::timestamptz as first_at
    from deployment d left join robot r on r.org_id = d.org_id and r.id = d.robot_id
      left join fleet f on f.org_id = d.org_id and f.id = coalesce(d.fleet_id, d.target_selector ->> 'fleet_id')
    where d.org_id = ${org_id} and ${HAS_FAILED} and d.finished_at >= ${since}
      and d.finished_at <= ${now}::timestamptz - ${for_seconds} * interval '1 second' and ${for_seconds * 1_000 < FAILED_DEPLOYMENT_MS}
      and ${SITE_OF_DEPLOYMENT} is not null and coalesce(${site_id}::text, '') in ('', ${SITE_OF_DEPLOYMENT})
      and coalesce(${fleet_id}::text, '') in ('', coalesce(r.fleet_id, f.id))`,
};

const counted = (matches: Statement<unknown>) => sql(pastRow)`
  select count(*)::int as match_count, coalesce(max(entry_count), 0) as entry_count, min(first_at) as first_at,
    count(*) filter (where previous_at is null or due_at - previous_at > ${GROUP_WINDOW_MS} * interval '1 millisecond')::int as incident_count
  from (select m.*, lag(due_at) over (partition by group_id order by due_at) as previous_at from (${matches}) m) due`;
