import { onUniqueViolation } from "../../engines/db/index.ts";
import { type Caller, seesWholeOrg, visible } from "../../kernel/caller.ts";
import { MAX_ID, containing, type Window } from "../../kernel/page.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, int, row, type RowOf, sql, type Statement, text, timestamptz } from "../../kernel/sql.ts";

const siteRow = row({ id: text, name: text, created_at: timestamptz, updated_at: timestamptz });
const countedRow = row({ ...siteRow.columns, robot_count: int, online_count: int });
type SiteRow = RowOf<typeof countedRow>;
const idRow = row({ id: text });
const anyRow = row({ present: bool });

/**
 * Returns an SQL condition for the sites that the caller may see: sites within the caller's scopes, and sites with a fleet within these
 * scopes.
 */
const seen = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? sql``
    : sql`and (true ${visible(caller, "id", null)} or exists (
      -- reads tables of other features: fleet
      select from fleet f where f.org_id = site.org_id and f.site_id = site.id ${visible(caller, "f.site_id", "f.id")}))`;

/**
 * Adds to each site of `page` the numbers of robots that the caller sees. Uses an index lookup for each site, because a plain join may read
 * all robots of the org.
 */
const counted = (caller: Caller, page: Statement<unknown>): Statement<SiteRow> =>
  // reads tables of other features: robot
  sql(countedRow)`
    with page as (${page})
    select page.id, page.name, counts.robot_count, counts.online_count, page.created_at, page.updated_at
    from page cross join lateral (
      select count(*)::int as robot_count, count(r.node_id)::int as online_count from robot r
      where r.org_id = page.org_id and r.site_id = page.id and r.decommissioned_at is null ${visible(caller, "r.site_id", "r.fleet_id")}) counts
    order by page.id desc`;

export const listSites = (db: Db, caller: Caller, q: string | undefined, { after, limit }: Window): Promise<SiteRow[]> =>
  db.many(
    counted(
      caller,
      sql`
      select org_id, ${siteRow} from site
      where org_id = ${caller.org_id} and id < ${after ?? MAX_ID} ${q === undefined ? sql`` : sql`and name ~ ${containing(q)}`} ${seen(caller)}
      order by id desc limit ${limit}`,
    ),
  );

export const findSite = (db: Db, caller: Caller, id: string): Promise<SiteRow | undefined> =>
  db.maybe(counted(caller, sql`select org_id, ${siteRow} from site where org_id = ${caller.org_id} and id = ${id}`));

/** Inserts a site at the commit, in one round trip with it. Throws `taken()` there if the org has a site with this name. */
export async function insertSite(
  db: Db,
  { org_id, id, name, at }: { org_id: string; id: string; name: string; at: Date },
  taken: () => Error,
): Promise<SiteRow> {
  await db.atCommit(
    sql`insert into site (org_id, id, name, created_at, updated_at) values (${org_id}, ${id}, ${name}, ${at}, ${at})`,
    onUniqueViolation("site_org_id_name_key", taken),
  );
  return { id, name, robot_count: 0, online_count: 0, created_at: at, updated_at: at };
}

export const renameSite = (db: Db, org_id: string, id: string, name: string, now: Date): Promise<number> =>
  db.run(sql`update site set name = ${name}, updated_at = ${now} where org_id = ${org_id} and id = ${id} and name <> ${name}`);

/** Locks the site against deletion until the transaction ends. */
export const shareSite = (db: Db, org_id: string, id: string): Promise<{ id: string } | undefined> =>
  db.maybe(sql(idRow)`select id from site where org_id = ${org_id} and id = ${id} for key share`);

/** Locks the site. Until the transaction ends, no fleet can be added to it. */
export const lockSite = (db: Db, org_id: string, id: string): Promise<{ id: string } | undefined> =>
  db.maybe(sql(idRow)`select id from site where org_id = ${org_id} and id = ${id} for update`);

/** Whether the site has fleets. A site without fleets has no robots, because each robot is in a fleet of its site. */
export async function hasFleets(db: Db, org_id: string, id: string): Promise<boolean> {
  const { present } = await db.one(sql(anyRow)`
    -- reads tables of other features: fleet
    select exists (select from fleet where org_id = ${org_id} and site_id = ${id}) as present`);
  return present;
}

export const deleteSite = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from site where org_id = ${org_id} and id = ${id}`);
