import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { limited, madeBefore, madeSince } from "../../kernel/page.ts";
import { equals, int, jsonb, nullable, type RowOf, sql, text, timestamptz, wiredRow } from "../../kernel/sql.ts";

const entryRow = wiredRow({
  id: text,
  at: timestamptz,
  actor: jsonb<Actor>(),
  token_id: nullable(text),
  action: text,
  method: text,
  path: text,
  object_id: nullable(text),
  status: nullable(int),
  error: nullable(text),
  ip: text,
  user_agent: nullable(text),
  request_id: text,
  data: jsonb<Record<string, unknown>>(),
});
export type EntryRow = RowOf<typeof entryRow>;

export interface EntryFilter {
  since?: Date | undefined;
  until?: Date | undefined;
  action?: string | undefined;
  actor_id?: string | undefined;
  token_id?: string | undefined;
  object_id?: string | undefined;
  outcome?: "done" | "refused" | undefined;
  changes?: boolean | undefined;
}

/** The text equals the condition of the index `audit_entry_changes`, so that the planner can use it. */
const CHANGES = sql`and (method <> 'GET' or data ->> 'stream' in ('shell', 'forward', 'files'))`;

const matching = (filter: EntryFilter) => sql`
    ${madeSince(ID_PREFIXES.audit, filter.since)} ${madeBefore(ID_PREFIXES.audit, filter.until)}
    ${equals({ action: filter.action, actor_id: filter.actor_id, token_id: filter.token_id, object_id: filter.object_id })}
    ${filter.outcome === undefined ? sql`` : filter.outcome === "done" ? sql`and error is null` : sql`and error is not null`}
    ${filter.changes === true ? CHANGES : sql``}`;

/** Returns the entries before the id `before`, newest first. The order of ids is the order of creation. */
export function newestEntries(db: Db, org_id: string, filter: EntryFilter, before: string, limit: number): Promise<EntryRow[]> {
  // reads tables of other features: audit_entry
  const entries = sql`select ${entryRow} from audit_entry where org_id = ${org_id} ${matching(filter)} and id < ${before} order by id desc`;
  const { since, until, action, actor_id, token_id, object_id, outcome, changes = false } = filter;
  // The best plan for a rare value differs from that for a frequent one.
  const is_whole = [since, until, action, actor_id, token_id, object_id, outcome].every((value) => value === undefined) && !changes;
  return db.many(sql(entryRow)`${is_whole ? limited(entries, limit) : sql`${entries} limit ${limit}`}`);
}

/** Returns the entries after the id `after`, oldest first. */
export const entriesAfter = (db: Db, org_id: string, filter: EntryFilter, after: string, limit: number): Promise<EntryRow[]> =>
  // reads tables of other features: audit_entry
  db.many(sql(entryRow)`
    select ${entryRow} from audit_entry where org_id = ${org_id} ${matching(filter)} and id > ${after} order by id limit ${limit}`);
