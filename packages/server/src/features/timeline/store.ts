import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, seesWholeOrg, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { limited, MAX_ID, madeBefore, madeSince, type Window } from "../../kernel/page.ts";
import { equals, int, json, jsonb, list, nullable, row, type RowOf, sql, text, timestamptz, wiredRow } from "../../kernel/sql.ts";

const columns = {
  id: text,
  at: timestamptz,
  kind: text,
  actor: jsonb<Actor>(),
  summary: text,
  data: jsonb<Record<string, unknown>>(),
};
const entryRow = wiredRow(columns);

interface NewEntry extends RowOf<{ columns: typeof columns }> {
  org_id: string;
  robot_id: string;
}

/** Inserts any number of entries. */
export const insertingEntries = (entries: readonly NewEntry[]) => sql`
    insert into timeline_entry (org_id, robot_id, id, at, kind, actor, summary, data)
    select e.org_id, e.robot_id, e.id, e.at, e.kind, e.actor, e.summary, e.data
    from jsonb_to_recordset(${json(entries)}::jsonb)
      as e (org_id text, robot_id text, id text, at timestamptz, kind text, actor jsonb, summary text, data jsonb)`;

const robotEntryRow = wiredRow({ ...columns, robot_id: text, robot_name: text });
const namedEntryRow = wiredRow({ ...columns, robot_id: text, robot_names: nullable(jsonb<(readonly [id: string, name: string])[]>()) });

/**
 * If the caller sees at most this many robots, the latest entries of each robot are read. Otherwise, the latest entries of the org are read
 * and filtered.
 */
const FEW_ROBOTS = 1_000;

/** Returns the timeline entries of all robots that the caller sees, newest first. */
export async function selectOrgEntries(
  db: Db,
  caller: Caller,
  filter: EntryFilter & { robot_id?: string | undefined; fleet_id?: string | undefined; site_id?: string | undefined },
  { after, limit }: Window,
): Promise<RowOf<typeof robotEntryRow>[]> {
  const { org_id } = caller;
  const { kind, since, until, robot_id, fleet_id, site_id } = filter;
  const seen = sql`${visible(caller, "r.site_id", "r.fleet_id")} ${equals({ "r.id": robot_id, "r.fleet_id": fleet_id, "r.site_id": site_id })}`;
  const wanted = sql`e.id < ${after ?? MAX_ID} ${equals({ "e.kind": kind })}
    ${madeSince(ID_PREFIXES.event, since)} ${madeBefore(ID_PREFIXES.event, until)}`;
  if ([robot_id, fleet_id, site_id].every((id) => id === undefined) && seesWholeOrg(caller)) {
    const entries = sql`
      select ${entryRow.of("e")}, e.robot_id from timeline_entry e where e.org_id = ${org_id} and ${wanted} order by e.id desc`;
    // The best plan for a rare kind differs from that for a frequent one.
    const page = [kind, since, until].every((value) => value === undefined) ? limited(entries, limit) : sql`${entries} limit ${limit}`;
    // reads tables of other features: robot
    const rows = await db.many(sql(namedEntryRow)`
      with page as (${page})
      select ${entryRow.of("page")}, page.robot_id, case when page.id = (select max(id) from page) then (
        select json_agg(json_build_array(id, name)) from robot where org_id = ${org_id} and id = any(array(select robot_id from page))) end as robot_names
      from page order by page.id desc`);
    const names = new Map(rows.find(({ robot_names }) => robot_names !== null)?.robot_names);
    return rows.map(({ robot_names: _, ...entry }) => ({ ...entry, robot_name: names.get(entry.robot_id) ?? entry.robot_id }));
  }
  const few = await db.many(sql(row({ id: text }))`
    -- reads tables of other features: robot
    select r.id from robot r where r.org_id = ${org_id} ${seen} limit ${FEW_ROBOTS + 1}`);
  if (few.length <= FEW_ROBOTS) {
    // reads tables of other features: robot
    return await db.many(sql(robotEntryRow)`
      select ${entryRow.of("e")}, r.id as robot_id, r.name as robot_name
      from robot r cross join lateral (
        select * from timeline_entry e where e.org_id = ${org_id} and e.robot_id = r.id and ${wanted} order by e.id desc limit ${limit}) e
      where r.org_id = ${org_id} and r.id = any(${list(few.map(({ id }) => id))}::text[]) order by e.id desc limit ${limit}`);
  }
  // The limit in the inner query prevents the query planner from joining both tables completely.
  return await db.many(sql(robotEntryRow)`
    -- reads tables of other features: robot
    select ${entryRow.of("e")}, e.robot_id, r.name as robot_name
    from timeline_entry e cross join lateral (
      select r.name from robot r where r.org_id = e.org_id and r.id = e.robot_id ${seen} limit 1) r
    where e.org_id = ${org_id} and ${wanted} order by e.id desc limit ${limit}`);
}

interface EntryFilter {
  kind?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

/** Returns the entries of a robot, newest first. The order of ids is the order of creation. */
export const selectEntries = (db: Db, org_id: string, robot_id: string, { kind, since, until }: EntryFilter, { after, limit }: Window) =>
  db.many(sql(entryRow)`
    select ${entryRow} from timeline_entry where org_id = ${org_id} and robot_id = ${robot_id}
    ${equals({ kind })} ${madeSince(ID_PREFIXES.event, since)} ${madeBefore(ID_PREFIXES.event, until)} and id < ${after ?? MAX_ID}
    order by id desc limit ${limit}`);

const countRow = row({ n: int });
export const countEntries = async (db: Db, org_id: string, robot_id: string, kind: string, since: Date): Promise<number> =>
  (
    await db.one(sql(countRow)`
      select count(*)::int as n from timeline_entry where org_id = ${org_id} and robot_id = ${robot_id} and kind = ${kind} and at >= ${since}`)
  ).n;

export const deleteEntries = (db: Db, org_id: string, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from timeline_entry where org_id = ${org_id} and ctid = any(array(
      select ctid from timeline_entry where org_id = ${org_id} ${madeBefore(ID_PREFIXES.event, before)} order by id limit ${limit} offset ${offset}
      for update skip locked))`);
