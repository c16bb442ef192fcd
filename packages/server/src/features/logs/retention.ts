import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { background } from "../../kernel/background.ts";
import { dayLiteral, identifier, row, sql, text } from "../../kernel/sql.ts";

const DAY_MS = 86_400_000;
const DAYS_AHEAD = 7;
const EVERY_MS = 3_600_000;
/** Any number that nothing else locks. */
const RETENTION_LOCK = 7_600_001;
const PARTITION = /^log_batch_(\d{4})(\d{2})(\d{2})$/;

/** Makes the partitions of the coming days and drops those whose logs are too old: now, and each hour. */
export async function startLogRetention(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const work = background(plane, "log partitions", EVERY_MS, () => keepPartitions(plane));
  // When this fails it is logged and tried again: the default partition takes what comes.
  work.wake();
  await work.settled();
  return { stop: () => work.stop() };
}

/** Once; two nodes may do it at the same time. */
export async function keepPartitions({ db, clock, settings, log }: Pick<Plane, "db" | "clock" | "settings" | "log">): Promise<void> {
  const today = Math.floor(clock.now().getTime() / DAY_MS) * DAY_MS;
  for (let ahead = 0; ahead <= DAYS_AHEAD; ahead += 1) await makePartition(db, new Date(today + ahead * DAY_MS));
  // The days of retention are whole ones, beside today.
  const oldest = new Date(today - settings.limits.log_retention_days * DAY_MS);
  for (const name of await listPartitions(db)) {
    if (dayOf(name) >= oldest) continue;
    await exclusively(db, (tx) => tx.run(sql`drop table if exists ${identifier(name)}`));
    log.info({ partition: name }, "dropped old logs");
  }
  await deleteFromDefault(db, oldest);
}

const nameOf = (day: Date): string => `log_batch_${day.toISOString().slice(0, 10).replaceAll("-", "")}`;

function dayOf(name: string): Date {
  const [, year, month, day] = PARTITION.exec(name) ?? [];
  return new Date(`${year}-${month}-${day}T00:00:00Z`);
}

const partitionRow = row({ relname: text });

async function listPartitions(db: Db): Promise<string[]> {
  const rows = await db.many(sql(partitionRow)`
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'log_batch'::regclass order by c.relname`);
  return rows.map(({ relname }) => relname).filter((name) => PARTITION.test(name));
}

/** One node at a time, and not waiting long for a lock: everyone who writes logs would wait behind it. */
const exclusively = <T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> =>
  db.transaction(async (tx) => {
    await tx.run(sql`set local lock_timeout = '5s'`);
    await tx.run(sql`select pg_advisory_xact_lock(${RETENTION_LOCK}::bigint)`);
    return await work(tx);
  });

async function makePartition(db: Db, day: Date): Promise<void> {
  const name = nameOf(day);
  if ((await listPartitions(db)).includes(name)) return;
  const [from, to] = [day, new Date(day.getTime() + DAY_MS)];
  const table = identifier(name);
  await exclusively(db, async (tx) => {
    if ((await listPartitions(tx)).includes(name)) return;
    await tx.run(sql`create table ${table} (like log_batch including all)`);
    // What the default partition took of this day moves; it must not take more meanwhile.
    await tx.run(sql`lock table log_batch_default in share row exclusive mode`);
    await tx.run(sql`
      with moved as (delete from log_batch_default where received_at >= ${from} and received_at < ${to} returning *)
      insert into ${table} select * from moved`);
    // Attached, not made in place: that would lock out everyone who reads or writes logs.
    await tx.run(sql`alter table log_batch attach partition ${table} for values from (${dayLiteral(from)}) to (${dayLiteral(to)})`);
  });
}

const deleteFromDefault = (db: Db, oldest: Date): Promise<number> => db.run(sql`delete from log_batch_default where received_at < ${oldest}`);
