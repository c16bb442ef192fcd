import type { Db } from "../../kernel/db.ts";
import { dayLiteral, identifier, row, sql, text } from "../../kernel/sql.ts";

const partitionRow = row({ relname: text });

/** Names of all partitions of log_batch, the default one among them, in order. */
export async function listPartitions(db: Db): Promise<string[]> {
  const rows = await db.many(sql(partitionRow)`
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'log_batch'::regclass order by c.relname`);
  return rows.map(({ relname }) => relname);
}

/** Any number that nothing else locks. */
const RETENTION_LOCK = 7_600_001;

/** One node at a time, and not waiting long for a lock: everyone who writes logs would wait behind it. */
export const exclusively = <T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await tx.run(sql`set local lock_timeout = '5s'`);
    await tx.run(sql`select pg_advisory_xact_lock(${RETENTION_LOCK}::bigint)`);
    return await work(tx);
  });

/** Makes the partition of [from, to) and moves there what the default partition took of it. Inside `exclusively`. */
export async function createPartition(tx: Db, name: string, from: Date, to: Date): Promise<void> {
  const table = identifier(name);
  await tx.run(sql`create table ${table} (like log_batch including all)`);
  // It must not take more of this day meanwhile.
  await tx.run(sql`lock table log_batch_default in share row exclusive mode`);
  await tx.run(sql`
    -- across orgs: a partition holds a day of everybody
    with moved as (delete from log_batch_default where received_at >= ${from} and received_at < ${to} returning *)
    insert into ${table} select * from moved`);
  // Attached, not made in place: that would lock out everyone who reads or writes logs.
  await tx.run(sql`alter table log_batch attach partition ${table} for values from (${dayLiteral(from)}) to (${dayLiteral(to)})`);
}

/** Inside `exclusively`. */
export const dropPartition = (tx: Db, name: string): Promise<number> => tx.run(sql`drop table if exists ${identifier(name)}`);

export const deleteFromDefault = (db: Db, before: Date): Promise<number> =>
  db.run(sql`
    -- across orgs: retention is the same for everybody
    delete from log_batch_default where received_at < ${before}`);
