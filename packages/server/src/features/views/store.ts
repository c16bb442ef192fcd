import type { ViewPage } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, seesWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { int, json, jsonb, nullable, row, type RowOf, sql, type Statement, text, textOf, timestamptz } from "../../kernel/sql.ts";

const viewRow = row({
  id: text,
  page: textOf<ViewPage>(),
  name: text,
  query: text,
  owner_id: nullable(text),
  created_by: jsonb<Actor>(),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type ViewRow = RowOf<typeof viewRow>;

/** Returns the id of the user or org token that owns the views of the caller. */
export const ownerOf = ({ actor, token_id }: Caller): string => actor.id ?? token_id;

/** A regular expression for the end of any id. */
const ID_END = "_[0-9a-z]{26}";

/**
 * Returns an SQL condition for the caller's views and the shared ones. A caller that is limited to sites or fleets gets no shared view that
 * names an object by its id, because the object may be outside of them.
 */
const seen = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? sql`(owner_id = ${ownerOf(caller)} or owner_id is null)`
    : sql`(owner_id = ${ownerOf(caller)} or owner_id is null and query !~ ${ID_END})`;

export const listViews = (db: Db, caller: Caller, { after, limit }: Window): Promise<ViewRow[]> =>
  db.many(sql(viewRow)`
    select ${viewRow} from saved_view where org_id = ${caller.org_id} and id < ${after ?? MAX_ID} and ${seen(caller)}
    order by id desc limit ${limit}`);

/** Returns a view that the caller sees. Locks it until the transaction ends. */
export const lockView = (tx: Db, caller: Caller, id: string): Promise<ViewRow | undefined> =>
  tx.maybe(sql(viewRow)`select ${viewRow} from saved_view where org_id = ${caller.org_id} and id = ${id} and ${seen(caller)} for update`);

const countRow = row({ count: int });

/** Returns the number of views of an owner; null counts the shared views. */
export const countViews = async (db: Db, org_id: string, owner_id: string | null): Promise<number> =>
  (
    await db.one(
      sql(countRow)`select count(*)::int as count from saved_view where org_id = ${org_id} and owner_id is not distinct from ${owner_id}`,
    )
  ).count;

export const insertView = (db: Db, org_id: string, view: ViewRow): Promise<number> =>
  db.run(sql`
    insert into saved_view (org_id, ${viewRow})
    values (${org_id}, ${view.id}, ${view.page}, ${view.name}, ${view.query}, ${view.owner_id}, ${json(view.created_by)}, ${view.created_at},
      ${view.updated_at})`);

export const updateView = (db: Db, org_id: string, { id, name, query, owner_id, updated_at }: ViewRow): Promise<number> =>
  db.run(sql`
    update saved_view set name = ${name}, query = ${query}, owner_id = ${owner_id}, updated_at = ${updated_at}
    where org_id = ${org_id} and id = ${id}`);

export const deleteView = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from saved_view where org_id = ${org_id} and id = ${id}`);

/** Deletes the views of a user or token that are not shared. */
export const deleteViewsOf = (db: Db, org_id: string, owner_id: string): Promise<number> =>
  db.run(sql`delete from saved_view where org_id = ${org_id} and owner_id = ${owner_id}`);
