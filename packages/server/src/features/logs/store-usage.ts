import type { Db } from "../../kernel/db.ts";
import { bigint, list, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

const usageRow = row({ org_id: text, period_at: timestamptz, bytes: bigint });
export type UsageRow = RowOf<typeof usageRow>;

/** Adds to what orgs have; an org that is gone by now is left out. */
export const addUsage = (db: Db, usage: readonly UsageRow[]): Promise<number> =>
  // reads: org
  db.run(sql`
    -- across orgs: a node counts for everybody at once
    insert into log_usage as u (org_id, period_at, bytes)
    select v.org_id, v.period_at, v.bytes
    from unnest(${list(usage.map(({ org_id }) => org_id))}::text[], ${list(usage.map(({ period_at }) => period_at))}::timestamptz[], ${list(usage.map(({ bytes }) => bytes))}::bigint[])
      as v (org_id, period_at, bytes)
    where exists (select from org o where o.id = v.org_id)
    order by 1, 2
    on conflict (org_id, period_at) do update set bytes = u.bytes + excluded.bytes`);

const orgRow = row({ org_id: text, bytes: bigint });

/** Orgs that have more than they may, and how much. */
export const listOverfull = (db: Db, bytes_max: number): Promise<RowOf<typeof orgRow>[]> =>
  db.many(sql(orgRow)`
    -- across orgs: whoever finds them makes room
    select org_id, sum(bytes)::bigint as bytes from log_usage group by org_id having sum(bytes) > ${bytes_max}::bigint order by org_id`);

/** An org's periods, oldest first. */
export const listUsage = (db: Db, org_id: string): Promise<UsageRow[]> =>
  db.many(sql(usageRow)`select ${usageRow} from log_usage where org_id = ${org_id} order by period_at`);

/** Deletes an org's batches that were received in [from, before), and forgets that they were counted. */
export const deleteStored = (db: Db, org_id: string, from: Date, before: Date): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.run(sql`delete from log_usage where org_id = ${org_id} and period_at < ${before}`);
    await tx.run(sql`delete from log_batch where org_id = ${org_id} and received_at >= ${from} and received_at < ${before}`);
  });

export const deleteUsage = (db: Db, before: Date): Promise<number> =>
  db.run(sql`
    -- across orgs: retention is the same for everybody
    delete from log_usage where period_at < ${before}`);
