import type { Db, SystemDb } from "../../kernel/db.ts";
import { int, row, type RowOf, sql, text } from "../../kernel/sql.ts";

const keyRow = row({ id: text, master_key_id: text, wrapped: text });
export type KeyRow = RowOf<typeof keyRow>;

/** Newest first. */
export const listKeys = (db: Db, org_id: string): Promise<KeyRow[]> =>
  db.many(sql(keyRow)`select ${keyRow} from secret_key where org_id = ${org_id} order by id desc`);

export const insertKey = (db: Db, org_id: string, { id, master_key_id, wrapped }: KeyRow, now: Date): Promise<number> =>
  db.run(sql`
    insert into secret_key (org_id, id, master_key_id, wrapped, created_at)
    values (${org_id}, ${id}, ${master_key_id}, ${wrapped}, ${now})`);

export const setKey = (db: Db, org_id: string, { id, master_key_id, wrapped }: KeyRow): Promise<number> =>
  db.run(sql`update secret_key set master_key_id = ${master_key_id}, wrapped = ${wrapped} where org_id = ${org_id} and id = ${id}`);

const ownedRow = row({ org_id: text, id: text, master_key_id: text, wrapped: text });

/** Data keys encrypted with a different master key, after the id `after`. */
export const listKeysOfOthers = (db: SystemDb, master_key_id: string, after: string, limit: number): Promise<RowOf<typeof ownedRow>[]> =>
  db.many(sql(ownedRow)`
    -- across orgs: the server's master key has changed
    select ${ownedRow} from secret_key where master_key_id <> ${master_key_id} and id > ${after} order by id limit ${limit}`);

export const countKeysOfOthers = (db: SystemDb, master_key_id: string): Promise<{ count: number }> =>
  db.one(sql(row({ count: int }))`
    -- across orgs: the server's master key has changed
    select count(*)::int as count from secret_key where master_key_id <> ${master_key_id}`);
