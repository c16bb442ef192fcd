import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { madeBefore } from "../../kernel/id-time.ts";
import { row, sql, text } from "../../kernel/sql.ts";

const orgRow = row({ org_id: text });

/** Returns every org that has entries, with one index lookup for each. */
export const listOrgsWithEntries = async (db: Db): Promise<string[]> =>
  (
    await db.many(sql(orgRow)`
      with recursive found (org_id) as (
        (select min(org_id) from timeline_entry)
        union all
        select (select min(t.org_id) from timeline_entry t where t.org_id > f.org_id) from found f where f.org_id is not null)
      select org_id from found where org_id is not null`)
  ).map(({ org_id }) => org_id);

export const deleteEntries = (db: Db, org_id: string, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from timeline_entry where org_id = ${org_id} and ctid = any(array(
      select ctid from timeline_entry where org_id = ${org_id} ${madeBefore(ID_PREFIXES.event, before)} order by id limit ${limit} offset ${offset}
      for update skip locked))`);
