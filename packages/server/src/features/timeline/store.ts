import type { Actor } from "@robofleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import type { Window } from "../../kernel/page.ts";
import { int, json, jsonb, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

const entryRow = row({
  id: text,
  at: timestamptz,
  kind: text,
  actor: jsonb<Actor>(),
  summary: text,
  data: jsonb<Record<string, unknown>>(),
});
export type EntryRow = RowOf<typeof entryRow>;

export interface NewEntry extends EntryRow {
  org_id: string;
  robot_id: string;
}

/** Any number of entries in one statement. */
export const insertEntries = (db: Db, entries: readonly NewEntry[]) =>
  db.run(sql`
    insert into timeline_entry (org_id, robot_id, id, at, kind, actor, summary, data)
    select e.org_id, e.robot_id, e.id, e.at, e.kind, e.actor, e.summary, e.data
    from jsonb_to_recordset(${json(entries)}::jsonb)
      as e (org_id text, robot_id text, id text, at timestamptz, kind text, actor jsonb, summary text, data jsonb)`);

export interface EntryFilter {
  kind?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

/** Newest first: ids grow in the order in which they were made. */
export const selectEntries = (db: Db, org_id: string, robot_id: string, { kind, since, until }: EntryFilter, { after, limit }: Window) =>
  db.many(sql(entryRow)`
    select ${entryRow} from timeline_entry where org_id = ${org_id} and robot_id = ${robot_id}
    ${kind === undefined ? sql`` : sql`and kind = ${kind}`}
    ${since === undefined ? sql`` : sql`and at >= ${since}`}
    ${until === undefined ? sql`` : sql`and at < ${until}`}
    ${after === null ? sql`` : sql`and id < ${after}`}
    order by id desc limit ${limit}`);

const countRow = row({ n: int });
export const countEntries = async (db: Db, org_id: string, robot_id: string, kind: string, since: Date): Promise<number> =>
  (
    await db.one(sql(countRow)`
      select count(*)::int as n from timeline_entry where org_id = ${org_id} and robot_id = ${robot_id} and kind = ${kind} and at >= ${since}`)
  ).n;

export const robotExists = async (db: Db, org_id: string, robot_id: string): Promise<boolean> =>
  (await db.maybe(sql(row({ id: text }))`
    -- reads: robot
    select id from robot where org_id = ${org_id} and id = ${robot_id}`)) !== undefined;
