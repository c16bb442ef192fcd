import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { Db } from "./db.ts";
import { dayLiteral, identifier, list, row, sql, text } from "./sql.ts";

const DAY_MS = 86_400_000;
const DAYS_AHEAD = 7;

/** A table partitioned by day, `NAME_YYYYMMDD`, with a default partition `NAME_default` for all other rows. */
export interface DailyTable {
  name: string;
  /** Column whose time decides the partition of a row. */
  column: string;
  /** Key of the advisory lock for creating and dropping partitions. No other code may lock the same number. */
  lock: number;
}

/**
 * Creates the partitions of the next days, by the wall clock. Drops partitions older than `days` days, by the retention clock. Two nodes
 * may call it at the same time.
 */
export async function keepPartitions(
  { db, clock, retention_clock, log }: { db: Db; clock: Pick<Clock, "now">; retention_clock: Pick<Clock, "now">; log: Logger },
  table: DailyTable,
  days: number,
): Promise<{ oldest: Date }> {
  const today = startOfDay(clock.now());
  const present = await listPartitions(db, table);
  for (let ahead = 0; ahead <= DAYS_AHEAD; ahead += 1) {
    const day = new Date(today + ahead * DAY_MS);
    if (!present.includes(nameOf(table, day))) await makePartition(db, table, day);
  }
  const oldest = oldestKept(retention_clock, days);
  for (const name of present) {
    const day = dayOf(table, name);
    if (day === undefined || day >= oldest) continue;
    await exclusively(db, table, (tx) => tx.run(sql`drop table if exists ${identifier(name)}`));
    log.info({ partition: name }, "dropped an old partition");
  }
  await db.run(sql`
    -- across orgs: retention is the same for all
    delete from ${identifier(defaultOf(table))} where ${identifier(table.column)} < ${oldest}`);
  return { oldest };
}

/** Returns the time before which rows are deleted: the start of a day, `days` days before today. */
export const oldestKept = (retention_clock: Pick<Clock, "now">, days: number): Date =>
  new Date(startOfDay(retention_clock.now()) - days * DAY_MS);

/** A larger partition is not sorted: queries that read it wait meanwhile, and 256 MiB take some seconds. */
const SORTED_BYTES_MAX = 256 * 1024 * 1024;

/**
 * Writes each partition of a day before yesterday once more, in the order of the primary key. The rows that a query selects are then beside
 * each other, not one on each page.
 */
export async function sortPastDays({ db, clock }: { db: Db; clock: Pick<Clock, "now"> }, table: DailyTable): Promise<void> {
  const before = new Date(startOfDay(clock.now()) - DAY_MS);
  const past = (await listPartitions(db, table)).filter((name) => (dayOf(table, name) ?? before) < before);
  for (const { name } of await listUnsorted(db, past)) {
    await exclusively(db, table, async (tx) => {
      // Another node may have sorted the partition first.
      for (const { key } of await listUnsorted(tx, [name])) await tx.run(sql`cluster ${identifier(name)} using ${identifier(key)}`);
    });
  }
}

/** Returns those of the tables that were never sorted, with the name of their primary key. */
const listUnsorted = (db: Db, names: readonly string[]): Promise<{ name: string; key: string }[]> =>
  db.many(sql(row({ name: text, key: text }))`
    select c.relname as name, k.relname as key
    from pg_class c join pg_index i on i.indrelid = c.oid and i.indisprimary and not i.indisclustered join pg_class k on k.oid = i.indexrelid
    where c.oid = any(${list(names)}::text[]::regclass[]) and pg_table_size(c.oid) <= ${SORTED_BYTES_MAX} order by c.relname`);

const startOfDay = (at: Date): number => Math.floor(at.getTime() / DAY_MS) * DAY_MS;

const defaultOf = ({ name }: DailyTable): string => `${name}_default`;

/** Returns the names of all partitions in order, the default partition included. */
async function listPartitions(db: Db, { name }: DailyTable): Promise<string[]> {
  const rows = await db.many(sql(row({ relname: text }))`
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(${name}) order by c.relname`);
  return rows.map(({ relname }) => relname);
}

/**
 * Runs `work` in a transaction, on one node at a time. The lock timeout is short, because all writers to the table wait while this
 * transaction waits for its table lock.
 */
const exclusively = <T>(db: Db, { lock }: DailyTable, work: (tx: Db) => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await tx.run(sql`set local lock_timeout = '5s'`);
    await tx.run(sql`select pg_advisory_xact_lock(${lock}::bigint)`);
    return await work(tx);
  });

const makePartition = (db: Db, table: DailyTable, day: Date): Promise<void> =>
  exclusively(db, table, async (tx) => {
    const name = nameOf(table, day);
    // Another node may have created the partition first.
    if (!(await listPartitions(tx, table)).includes(name)) await createPartition(tx, table, name, day);
  });

/** Creates the partition of a day and moves the day's rows from the default partition into it. */
async function createPartition(tx: Db, table: DailyTable, name: string, from: Date): Promise<void> {
  const to = new Date(from.getTime() + DAY_MS);
  const [parent, rest, made, column] = [table.name, defaultOf(table), name, table.column].map(identifier) as [
    ReturnType<typeof identifier>,
    ReturnType<typeof identifier>,
    ReturnType<typeof identifier>,
    ReturnType<typeof identifier>,
  ];
  await tx.run(sql`create table ${made} (like ${parent} including all)`);
  // Blocks writers, so that the default partition gets no further rows of this day.
  await tx.run(sql`lock table ${rest} in share row exclusive mode`);
  await tx.run(sql`
    -- across orgs: a partition contains a day of all orgs
    with moved as (delete from ${rest} where ${column} >= ${from} and ${column} < ${to} returning *)
    insert into ${made} select * from moved`);
  // Created separately and then attached: `create table … partition of` would block all readers and writers.
  await tx.run(sql`alter table ${parent} attach partition ${made} for values from (${dayLiteral(from)}) to (${dayLiteral(to)})`);
}

const nameOf = ({ name }: DailyTable, day: Date): string => `${name}_${day.toISOString().slice(0, 10).replaceAll("-", "")}`;

function dayOf({ name }: DailyTable, partition: string): Date | undefined {
  const [, year, month, day] = /^(\d{4})(\d{2})(\d{2})$/.exec(partition.slice(name.length + 1)) ?? [];
  return year === undefined ? undefined : new Date(`${year}-${month}-${day}T00:00:00Z`);
}
