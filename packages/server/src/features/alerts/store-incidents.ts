import type { IncidentEntryKind, IncidentStatus, Severity } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { int, json, jsonb, list, nullable, row, type RowOf, sql, type Statement, text, textOf, timestamptz } from "../../kernel/sql.ts";

/**
 * Maximum matches that one evaluation adds or ends, and that it adds to incidents. If there are more, the next evaluation continues: an
 * evaluation of any size would exceed the time limit of a statement, and be repeated forever.
 */
export const CHANGES_MAX = 20_000;

const differenceRow = row({ incident_id: nullable(text), count: int, ended: nullable(jsonb<string[]>()) });

/** What one evaluation changed in the matches of an org. */
export interface MatchChanges {
  /** The subjects that no longer match, by incident. */
  ended: Map<string, readonly string[]>;
  /** Whether more changes remain for the next evaluation. */
  has_more: boolean;
}

/**
 * Stores which subjects match now: adds new ones, and deletes those that no longer match. `matches` selects rule_id, group_id, subject_id,
 * site_id and fleet_id. Writes only differences, so that it writes nothing while nothing changes. The caller has claimed the org, so no
 * other transaction moves the rows.
 *
 * A plan from a time when the table was empty may have nested loops, which took more than 30 s for 20,000 matches. A full join is always
 * hashed or merged, and rows found by ctid need no join.
 */
export async function syncMatches(tx: Db, org_id: string, matches: Statement<unknown>, now: Date): Promise<MatchChanges> {
  const changes = await tx.many(sql(differenceRow)`
    with difference as materialized (
      select c.rule_id, c.group_id, c.subject_id, c.site_id, c.fleet_id, m.ctid as ended_at, m.incident_id, m.subject_id as ended_id
      from (${matches}) c
      full join (select ctid, rule_id, subject_id, incident_id from alert_match where org_id = ${org_id}) m
        on m.rule_id = c.rule_id and m.subject_id = c.subject_id
      where c.rule_id is null or m.rule_id is null
      limit ${CHANGES_MAX}),
    ended as (delete from alert_match where org_id = ${org_id} and ctid = any(array(select ended_at from difference))),
    started as (
      insert into alert_match (org_id, rule_id, subject_id, group_id, site_id, fleet_id, since_at)
      select ${org_id}, rule_id, subject_id, group_id, site_id, fleet_id, ${now} from difference where rule_id is not null)
    select incident_id, count(*)::int as count, jsonb_agg(ended_id) filter (where ended_id is not null) as ended
    from difference group by incident_id`);
  const count = changes.reduce((sum, change) => sum + change.count, 0);
  const ended = changes.flatMap(({ incident_id, ended }) =>
    incident_id === null || ended === null ? [] : [[incident_id, ended] as const],
  );
  return { ended: new Map(ended), has_more: count === CHANGES_MAX };
}

/** Marks members of an incident as no longer matching. */
export const leaveIncident = (tx: Db, org_id: string, incident_id: string, subjects: readonly string[], now: Date): Promise<number> =>
  tx.run(sql`
    update incident_member set left_at = ${now}
    where org_id = ${org_id} and incident_id = ${incident_id} and subject_id = any(${list(subjects)}::text[])`);

/** Ends all matches of a rule: its incidents lose their active members. */
export const endMatches = async (tx: Db, org_id: string, rule_id: string, now: Date): Promise<void> => {
  await tx.run(sql`
    update incident_member m set left_at = ${now} from alert_match a
    where a.org_id = ${org_id} and a.rule_id = ${rule_id} and m.org_id = ${org_id} and m.incident_id = a.incident_id and m.subject_id = a.subject_id`);
  await tx.run(sql`delete from alert_match where org_id = ${org_id} and rule_id = ${rule_id}`);
};

const dueRow = row({ rule_id: text, subject_id: text, group_id: text, site_id: text, fleet_id: nullable(text) });
export type DueRow = RowOf<typeof dueRow>;

/** Returns matches without an incident that have lasted for the duration of their rule, up to CHANGES_MAX. */
export const listDueMatches = (tx: Db, org_id: string, now: Date): Promise<DueRow[]> =>
  tx.many(sql(dueRow)`
    select m.rule_id, m.subject_id, m.group_id, m.site_id, m.fleet_id
    from alert_rule r join alert_match m on m.org_id = r.org_id and m.rule_id = r.id
    where r.org_id = ${org_id} and m.incident_id is null and m.since_at <= ${now}::timestamptz - r.for_seconds * interval '1 second'
    order by m.rule_id, m.subject_id limit ${CHANGES_MAX}`);

const incidentRow = row({
  id: text,
  rule_id: text,
  title: text,
  severity: textOf<Severity>(),
  group_id: text,
  site_id: text,
  fleet_id: nullable(text),
  status: textOf<IncidentStatus>(),
  member_count: int,
  active_count: int,
  flap_count: int,
  raised_at: timestamptz,
  joined_at: timestamptz,
  cleared_at: nullable(timestamptz),
  notified_at: nullable(timestamptz),
  acknowledged_at: nullable(timestamptz),
  resolved_at: nullable(timestamptz),
  assignee_id: nullable(text),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type IncidentRow = RowOf<typeof incidentRow>;

/** Locks the incidents that a match may join or a step may change: unresolved ones, and those resolved since a time. */
export const lockIncidents = (tx: Db, org_id: string, resolved_since: Date): Promise<IncidentRow[]> =>
  tx.many(sql(incidentRow)`
    select ${incidentRow} from incident where org_id = ${org_id} and (status <> 'resolved' or resolved_at >= ${resolved_since})
    order by id for update`);

/** Locks one incident until the transaction ends. */
export const lockIncident = (tx: Db, org_id: string, id: string): Promise<IncidentRow | undefined> =>
  tx.maybe(sql(incidentRow)`select ${incidentRow} from incident where org_id = ${org_id} and id = ${id} for update`);

export const setAssignee = (tx: Db, org_id: string, id: string, assignee_id: string | null): Promise<number> =>
  tx.run(sql`update incident set assignee_id = ${assignee_id} where org_id = ${org_id} and id = ${id}`);

const memberRow = row({ incident_id: text, subject_id: text });

/** Returns which of these subjects are or were members of these incidents. */
export const listMembersAmong = (tx: Db, org_id: string, incidents: readonly string[], subjects: readonly string[]) =>
  tx.many(sql(memberRow)`
    select incident_id, subject_id from incident_member
    where org_id = ${org_id} and incident_id = any(${list(incidents)}::text[]) and subject_id = any(${list(subjects)}::text[])`);

/** A member that leaves an incident and returns within this time has never left it: `joined_at` stays. */
const RETURN_SECONDS = 600;

/** Adds matches of a rule to an incident as members. */
export const joinIncident = (
  tx: Db,
  org_id: string,
  { id, rule_id }: Pick<IncidentRow, "id" | "rule_id">,
  subjects: readonly string[],
  now: Date,
): Promise<number> =>
  tx.run(sql`
    with matched as (
      update alert_match set incident_id = ${id}
      where org_id = ${org_id} and rule_id = ${rule_id} and subject_id = any(${list(subjects)}::text[]))
    insert into incident_member (org_id, incident_id, subject_id, joined_at)
    select ${org_id}, ${id}, subject_id, ${now} from unnest(${list(subjects)}::text[]) as v (subject_id)
    on conflict (org_id, incident_id, subject_id) do update set left_at = null,
      joined_at = case when incident_member.left_at >= ${now}::timestamptz - ${RETURN_SECONDS} * interval '1 second'
        then incident_member.joined_at else excluded.joined_at end`);

const countRow = row({ incident_id: text, active: int, members: int });

/** Counts the members of incidents: those that match now, and all. */
export const countMembers = (tx: Db, org_id: string, incidents: readonly string[]) =>
  tx.many(sql(countRow)`
    select i.id as incident_id,
      (select count(*) from alert_match m where m.org_id = ${org_id} and m.incident_id = i.id)::int as active,
      (select count(*) from incident_member m where m.org_id = ${org_id} and m.incident_id = i.id)::int as members
    from unnest(${list(incidents)}::text[]) as i (id)`);

/** Inserts or replaces incidents. The caller has locked those that exist. */
export const putIncidents = (tx: Db, org_id: string, incidents: readonly IncidentRow[]): Promise<number> =>
  tx.run(sql`
    insert into incident (org_id, ${incidentRow})
    select ${org_id}, ${incidentRow.of("v")}
    from jsonb_to_recordset(${json(incidents)}::jsonb) as v (id text, rule_id text, title text, severity text, group_id text, site_id text,
      fleet_id text, status text, member_count int, active_count int, flap_count int, raised_at timestamptz, joined_at timestamptz,
      cleared_at timestamptz, notified_at timestamptz, acknowledged_at timestamptz, resolved_at timestamptz, assignee_id text,
      created_at timestamptz, updated_at timestamptz)
    on conflict (org_id, id) do update set status = excluded.status, member_count = excluded.member_count, active_count = excluded.active_count,
      flap_count = excluded.flap_count, raised_at = excluded.raised_at, joined_at = excluded.joined_at, cleared_at = excluded.cleared_at,
      notified_at = excluded.notified_at, acknowledged_at = excluded.acknowledged_at, resolved_at = excluded.resolved_at,
      updated_at = excluded.updated_at`);

export interface NewEntry {
  id: string;
  incident_id: string;
  kind: IncidentEntryKind;
  actor: Actor;
  comment: string | null;
}

export const insertIncidentEntries = (tx: Db, org_id: string, entries: readonly NewEntry[], now: Date): Promise<number> =>
  tx.run(sql`
    insert into incident_entry (org_id, incident_id, id, at, kind, actor, comment)
    select ${org_id}, v.incident_id, v.id, ${now}, v.kind, v.actor, v.comment
    from jsonb_to_recordset(${json(entries)}::jsonb) as v (incident_id text, id text, kind text, actor jsonb, comment text)`);
