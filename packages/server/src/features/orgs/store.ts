import type { Db } from "../../kernel/db.ts";
import { BEHIND_ALL_IDS, type Window } from "../../kernel/page.ts";
import { row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

export type OrgStatus = "pending" | "active" | "suspended";

const orgRow = row({ id: text, name: text, status: textOf<OrgStatus>(), created_at: timestamptz, updated_at: timestamptz });
export type OrgRow = RowOf<typeof orgRow>;

export const listOrgs = (db: Db, status: OrgStatus | undefined, { after, limit }: Window): Promise<OrgRow[]> =>
  db.many(sql(orgRow)`
    select ${orgRow} from org
    where (${status ?? null}::text is null or status = ${status ?? null}) and id < ${after ?? BEHIND_ALL_IDS}
    order by id desc limit ${limit}`);

export const findOrg = (db: Db, id: string): Promise<OrgRow | undefined> =>
  db.maybe(sql(orgRow)`select ${orgRow} from org where id = ${id}`);

export const insertOrg = (db: Db, org: { id: string; name: string; status: OrgStatus; at: Date }): Promise<OrgRow> =>
  db.one(sql(orgRow)`
    insert into org (id, name, status, created_at, updated_at) values (${org.id}, ${org.name}, ${org.status}, ${org.at}, ${org.at})
    returning ${orgRow}`);

/** Answers nothing unless the org was pending: of two at once, one approves. */
export const approveOrg = (db: Db, id: string, now: Date): Promise<OrgRow | undefined> =>
  db.maybe(sql(orgRow)`update org set status = 'active', updated_at = ${now} where id = ${id} and status = 'pending' returning ${orgRow}`);
