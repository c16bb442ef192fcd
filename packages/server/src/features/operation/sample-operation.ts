import { statfs } from "node:fs/promises";
import type { Plane } from "../../context.ts";
import { readLastBackup } from "../../engines/db/backup/index.ts";
import { type Background, background } from "../../kernel/background.ts";
import type { Db } from "../../kernel/db.ts";
import { bigint, row, sql, timestamptz } from "../../kernel/sql.ts";
import { oldestLogAt } from "../logs/index.ts";

/** Sampling interval. A sample is too expensive for each scrape: PostgreSQL reads the size of every table from the file system. */
const SAMPLE_EVERY_MS = 60_000;

const databaseRow = row({ bytes: bigint, started_at: timestamptz });
const readDatabase = (db: Db) =>
  db.one(sql(databaseRow)`
    -- across orgs: statistics of the whole service
    select pg_database_size(current_database()) as bytes, pg_postmaster_start_time() as started_at`);

const walRow = row({ bytes: bigint });
/** Rejects if the database role is not a member of pg_monitor. */
const readWal = (db: Db) =>
  db.one(sql(walRow)`
    -- across orgs: statistics of the whole service
    select coalesce(sum(size), 0)::bigint as bytes from pg_ls_waldir()`);

type SampledPlane = Pick<Plane, "db" | "clock" | "log" | "metrics" | "settings">;

/** Updates the gauges of disk, database, backup and logs now and each minute. A value that cannot be read is NaN. */
export function startOperationSamples(plane: SampledPlane): Background {
  const { db, clock, metrics, settings } = plane;
  let started_at: Date | undefined;
  const work = background(plane, "operation metrics", SAMPLE_EVERY_MS, async () => {
    const age = (at: Date): number => Math.max(0, (clock.now().getTime() - at.getTime()) / 1_000);
    const [disk, database, wal, backup, log] = await Promise.all([
      orUnknown(statfs(settings.data_directory)),
      orUnknown(readDatabase(db)),
      orUnknown(readWal(db)),
      readLastBackup(settings.data_directory),
      orUnknown(oldestLogAt(db)),
    ]);
    metrics.disk_free_bytes.set(disk === undefined ? Number.NaN : disk.bavail * disk.bsize);
    metrics.database_bytes.set(database?.bytes ?? Number.NaN);
    metrics.wal_bytes.set(wal?.bytes ?? Number.NaN);
    metrics.backup_age.set(backup === undefined ? Number.POSITIVE_INFINITY : age(backup));
    metrics.oldest_log_age.set(log === undefined ? Number.NaN : age(log));
    if (database === undefined) return;
    if (started_at !== undefined && database.started_at.getTime() !== started_at.getTime()) metrics.database_restarts.inc();
    started_at = database.started_at;
  });
  work.wake();
  return work;
}

const orUnknown = <T>(reading: Promise<T>): Promise<T | undefined> => reading.catch(() => undefined);
