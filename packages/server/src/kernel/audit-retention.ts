import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Db, DbErrors } from "./db.ts";
import { madeBefore } from "./id-time.ts";
import { deleteIsolated, forEachOrg, type RetentionContext } from "./retention.ts";
import { row, sql, text } from "./sql.ts";

const orgRow = row({ org_id: text });

/** Returns every org that has entries, including removed orgs and the service itself (''). One index lookup per org. */
const listOrgsWithEntries = async (db: Db): Promise<string[]> =>
  (
    await db.many(sql(orgRow)`
      with recursive found (org_id) as (
        (select min(org_id) from audit_entry)
        union all
        select (select min(a.org_id) from audit_entry a where a.org_id > f.org_id) from found f where f.org_id is not null)
      select org_id from found where org_id is not null`)
  ).map(({ org_id }) => org_id);

const deleteEntries = (db: Db, org_id: string, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from audit_entry where org_id = ${org_id} and ctid = any(array(
      select ctid from audit_entry where org_id = ${org_id} ${madeBefore(ID_PREFIXES.audit, before)} order by id limit ${limit} offset ${offset}
      for update skip locked))`);

/** Deletes the entries of each org that are older than its cutoff. */
export async function dropAuditEntries(
  context: Pick<RetentionContext, "db" | "log"> & { db_errors: DbErrors },
  before: Date,
): Promise<void> {
  await forEachOrg(context, "audit", await listOrgsWithEntries(context.db), async (org_id) => {
    const entries = await deleteIsolated(context.db_errors.isOutage, (limit, offset) =>
      deleteEntries(context.db, org_id, before, limit, offset),
    );
    if (entries > 0) context.log.info({ org_id, entries, before: before.toISOString() }, "deleted old audit entries");
  });
}
