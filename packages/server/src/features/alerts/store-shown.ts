import type { IncidentEntryKind, IncidentStatus, Severity } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { equals, int, jsonb, nullable, type RowOf, sql, type Statement, text, textOf, timestamptz, wiredRow } from "../../kernel/sql.ts";

/** The columns of table `incident` that users see. */
const incidentColumns = {
  id: text,
  rule_id: text,
  title: text,
  severity: textOf<Severity>(),
  site_id: text,
  fleet_id: nullable(text),
  status: textOf<IncidentStatus>(),
  member_count: int,
  active_count: int,
  flap_count: int,
  assignee_id: nullable(text),
  raised_at: timestamptz,
  acknowledged_at: nullable(timestamptz),
  resolved_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
};
export const incidentRow = wiredRow(incidentColumns);
/** The columns of `incidentNames`. */
export const nameColumns = { assignee_name: nullable(text), robot_name: nullable(text) };
const shownRow = wiredRow({ ...incidentColumns, ...nameColumns });
type ShownIncident = RowOf<typeof shownRow>;

const nameRow = wiredRow({ name: text });
/** Selects the name of a user in the org. No row: the user is not a member. */
const nameOf = (org_id: string, user_id: Statement<unknown>): Statement<RowOf<typeof nameRow>> =>
  // reads tables of other features: membership, user_account
  sql(nameRow)`
    select coalesce(m.name, u.email) as name from membership m join user_account u on u.id = m.user_id
    where m.org_id = ${org_id} and m.user_id = ${user_id} order by m.name limit 1`;

export const findMemberName = async (db: Db, org_id: string, user_id: string): Promise<string | undefined> =>
  (await db.maybe(nameOf(org_id, sql`${user_id}`)))?.name;

/**
 * Selects two names for each incident of the alias `page`: that of the assignee, and that of the robot. The robot has one if it is the only
 * member, matches now and is still in the place of the incident. The caller may not see a robot elsewhere.
 */
export const incidentNames = (org_id: string): Statement<unknown> =>
  // reads tables of other features: robot
  sql`
    (${nameOf(org_id, sql`page.assignee_id`)}) as assignee_name,
    case when page.status <> 'resolved' and page.member_count = 1 then (
      select r.name from incident_member m join robot r on r.org_id = m.org_id and r.id = m.subject_id
      where m.org_id = ${org_id} and m.incident_id = page.id and m.left_at is null
        and r.site_id = page.site_id and r.fleet_id = coalesce(page.fleet_id, r.fleet_id)
      limit 1) end as robot_name`;

/** Adds names to each incident of `page`. */
const withNames = (org_id: string, page: Statement<unknown>): Statement<ShownIncident> => sql(shownRow)`
  select ${incidentRow.of("page")}, ${incidentNames(org_id)} from (${page}) page order by page.id desc`;

export interface IncidentFilter {
  status?: IncidentStatus | undefined;
  unresolved?: boolean | undefined;
  severity?: Severity | undefined;
  site_id?: string | undefined;
  fleet_id?: string | undefined;
  robot_id?: string | undefined;
  rule_id?: string | undefined;
}

const NOTHING = sql``;

/** Returns the incidents that the caller may see, newest first. An incident of a whole site is hidden from callers that see only a fleet. */
export const listIncidents = (db: Db, caller: Caller, filter: IncidentFilter, { after, limit }: Window): Promise<ShownIncident[]> => {
  const { status, severity, site_id, fleet_id, rule_id, robot_id, unresolved } = filter;
  return db.many(
    withNames(
      caller.org_id,
      sql`
      select ${incidentRow} from incident i where org_id = ${caller.org_id} and id < ${after ?? MAX_ID}
        ${unresolved === true ? sql`and status <> 'resolved'` : NOTHING} ${equals({ status, severity, site_id, fleet_id, rule_id })}
        ${robot_id === undefined ? NOTHING : ofSubject(caller.org_id, robot_id)} ${visible(caller, "site_id", "fleet_id")}
      order by id desc limit ${limit}`,
    ),
  );
};

const ofSubject = (org_id: string, subject_id: string): Statement<unknown> =>
  sql`and exists (select from incident_member m where m.org_id = ${org_id} and m.incident_id = i.id and m.subject_id = ${subject_id})`;

export const findIncident = (db: Db, org_id: string, id: string): Promise<ShownIncident | undefined> =>
  db.maybe(withNames(org_id, sql`select ${incidentRow} from incident where org_id = ${org_id} and id = ${id}`));

const memberRow = wiredRow({ subject_id: text, robot_name: nullable(text), joined_at: timestamptz, left_at: nullable(timestamptz) });

/** Returns members of an incident by id. Omits robots that have moved to a site or fleet that the caller may not see. */
export const listMembers = (db: Db, caller: Caller, incident_id: string, active: boolean, { after, limit }: Window) =>
  // reads tables of other features: robot
  db.many(sql(memberRow)`
    select m.subject_id, r.name as robot_name, m.joined_at, m.left_at
    from incident_member m left join robot r on r.org_id = m.org_id and r.id = m.subject_id
    where m.org_id = ${caller.org_id} and m.incident_id = ${incident_id} and m.subject_id > ${after ?? ""}
      ${active ? sql`and m.left_at is null` : NOTHING} and (r.id is null or (true ${visible(caller, "r.site_id", "r.fleet_id")}))
    order by m.subject_id limit ${limit}`);

const entryRow = wiredRow({ id: text, at: timestamptz, kind: textOf<IncidentEntryKind>(), actor: jsonb<Actor>(), comment: nullable(text) });

export const listEntries = (db: Db, org_id: string, incident_id: string, { after, limit }: Window) =>
  db.many(sql(entryRow)`
    select ${entryRow} from incident_entry where org_id = ${org_id} and incident_id = ${incident_id} and id < ${after ?? MAX_ID}
    order by id desc limit ${limit}`);
