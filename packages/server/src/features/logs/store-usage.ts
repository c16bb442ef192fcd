import type { Db } from "../../kernel/db.ts";
import { bigint, list, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";
import type { BatchKey } from "./store.ts";

/** Estimated bytes of a batch in addition to its records: row header, other columns, index entry. */
export const ROW_BYTES = 200;

/** The bytes of a robot's stored batches that were received in a period of ten minutes. Negative for batches that were deleted. */
export interface RobotUsage {
  org_id: string;
  robot_id: string;
  period_at: Date;
  bytes: number;
}

const PERIOD_MS = 10 * 60_000;
const DAY_MS = 86_400_000;
export const periodOf = (at: Date): Date => new Date(Math.floor(at.getTime() / PERIOD_MS) * PERIOD_MS);
const dayOf = (at: Date): Date => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS);

/**
 * Adds bytes to the usage of orgs. Locks rows in order of the primary key, so that concurrent calls do not deadlock. Skips deleted orgs.
 */
export const addOrgUsage = (db: Db, usage: readonly Omit<RobotUsage, "robot_id">[]): Promise<number> =>
  // reads tables of other features: org
  db.run(sql`
    -- across orgs: a node writes the counts of all orgs in one statement
    insert into log_usage as u (org_id, period_at, bytes)
    select v.org_id, v.period_at, sum(v.bytes)
    from unnest(${list(usage.map(({ org_id }) => org_id))}::text[], ${list(usage.map(({ period_at }) => period_at))}::timestamptz[], ${list(usage.map(({ bytes }) => bytes))}::bigint[])
      as v (org_id, period_at, bytes)
    where exists (select from org o where o.id = v.org_id)
    group by 1, 2 order by 1, 2
    on conflict (org_id, period_at) do update set bytes = u.bytes + excluded.bytes`);

/** Adds bytes to the usage of robots, by day. Otherwise works like addOrgUsage. */
export const addRobotUsage = (db: Db, usage: readonly RobotUsage[]): Promise<number> =>
  // reads tables of other features: org
  db.run(sql`
    -- across orgs: a node writes the counts of all orgs in one statement
    insert into log_robot_usage as u (org_id, robot_id, day, bytes)
    select v.org_id, v.robot_id, v.day, sum(v.bytes)
    from unnest(${list(usage.map(({ org_id }) => org_id))}::text[], ${list(usage.map(({ robot_id }) => robot_id))}::text[],
      ${list(usage.map(({ period_at }) => dayOf(period_at)))}::timestamptz[], ${list(usage.map(({ bytes }) => bytes))}::bigint[])
      as v (org_id, robot_id, day, bytes)
    where exists (select from org o where o.id = v.org_id)
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (org_id, robot_id, day) do update set bytes = u.bytes + excluded.bytes`);

const orgRow = row({ org_id: text, bytes: bigint });
type OrgUsage = RowOf<typeof orgRow>;

/** Returns the orgs above their limit, with their bytes. */
export const listOverfull = (db: Db, bytes_max: number): Promise<OrgUsage[]> =>
  db.many(sql(orgRow)`
    -- across orgs: any node deletes surplus logs
    select org_id, sum(bytes)::bigint as bytes from log_usage group by org_id having sum(bytes) > ${bytes_max}::bigint order by org_id`);

const bytesRow = row({ bytes: bigint });
/** Returns the stored bytes of an org. */
export const countOrgBytes = async (db: Db, org_id: string): Promise<number> =>
  (await db.one(sql(bytesRow)`select coalesce(sum(bytes), 0)::bigint as bytes from log_usage where org_id = ${org_id}`)).bytes;

/** Returns the orgs that have a robot above `robot_bytes_max`, with the bytes of the largest such robot. */
export const listLopsided = (db: Db, robot_bytes_max: number): Promise<OrgUsage[]> =>
  db.many(sql(orgRow)`
    -- across orgs: any node deletes surplus logs
    select r.org_id, max(r.bytes)::bigint as bytes from (
      select org_id, robot_id, sum(bytes) as bytes from log_robot_usage group by org_id, robot_id having sum(bytes) > ${robot_bytes_max}::bigint) r
    group by r.org_id order by r.org_id`);

const robotRow = row({ robot_id: text, bytes: bigint });
export type RobotBytes = RowOf<typeof robotRow>;

/** Returns the stored bytes of each robot of an org, largest first. */
export const listRobotBytes = (db: Db, org_id: string): Promise<RobotBytes[]> =>
  db.many(sql(robotRow)`
    select robot_id, sum(bytes)::bigint as bytes from log_robot_usage where org_id = ${org_id} group by robot_id order by sum(bytes) desc, robot_id`);

const sizeRow = row({ robot_id: text, received_at: timestamptz, first_seq: bigint, bytes: bigint });
type BatchSize = RowOf<typeof sizeRow>;

/** Returns the sizes of a robot's oldest batches without reading their records. */
export const oldestBatches = (db: Db, org_id: string, robot_id: string, limit: number): Promise<BatchSize[]> =>
  db.many(sql(sizeRow)`
    select robot_id, received_at, first_seq, octet_length(records) + ${ROW_BYTES}::bigint as bytes
    from log_batch where org_id = ${org_id} and robot_id = ${robot_id} order by received_at, first_seq limit ${limit}`);

/** Deletes a robot's batches up to and including `last`. */
export const deleteBatches = (db: Db, org_id: string, last: BatchKey): Promise<number> =>
  db.run(sql`
    delete from log_batch where org_id = ${org_id} and robot_id = ${last.robot_id}
      and received_at <= ${last.received_at} and (received_at, first_seq) <= (${last.received_at}, ${last.first_seq})`);

const idRow = row({ robot_id: text });

/** Returns the robots of an org that ever logged, ordered by id. */
export const listLoggingRobots = async (db: Db, org_id: string): Promise<string[]> =>
  (await db.many(sql(idRow)`select robot_id from log_position where org_id = ${org_id} order by robot_id`)).map(({ robot_id }) => robot_id);

const oldestRow = row({ period_at: nullable(timestamptz) });

/**
 * Returns the receive time of the oldest stored logs, rounded down to ten minutes. Undefined if there are no logs. Reads the counts instead
 * of the batches.
 */
export const oldestLogAt = async (db: Db): Promise<Date | undefined> =>
  (
    await db.one(sql(oldestRow)`
      -- across orgs: statistics of the whole service
      select min(period_at) as period_at from log_usage where bytes > 0`)
  ).period_at ?? undefined;

/** Counts a robot's stored batches again and replaces the robot's counts. */
export const recountRobot = (db: Db, org_id: string, robot_id: string): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.run(sql`delete from log_robot_usage where org_id = ${org_id} and robot_id = ${robot_id}`);
    await tx.run(sql`
      insert into log_robot_usage (org_id, robot_id, day, bytes)
      select ${org_id}, ${robot_id}, date_trunc('day', received_at, 'UTC'), sum(octet_length(records) + ${ROW_BYTES}::bigint)
      from log_batch where org_id = ${org_id} and robot_id = ${robot_id} group by 3
      on conflict (org_id, robot_id, day) do update set bytes = excluded.bytes`);
  });

/** Replaces the counts of an org by the sums of the counts of its robots. */
export const recountOrg = (db: Db, org_id: string): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.run(sql`delete from log_usage where org_id = ${org_id}`);
    await tx.run(sql`
      insert into log_usage (org_id, period_at, bytes)
      select org_id, day, sum(bytes) from log_robot_usage where org_id = ${org_id} group by org_id, day
      on conflict (org_id, period_at) do update set bytes = excluded.bytes`);
  });

/** Deletes the counts of days before `before`. The batches of those days were dropped with their partitions. */
export const deleteUsage = (db: Db, before: Date): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.run(sql`
      -- across orgs: retention is the same for all orgs
      delete from log_usage where period_at < ${before}`);
    await tx.run(sql`
      -- across orgs: retention is the same for all orgs
      delete from log_robot_usage where day < ${before}`);
  });
