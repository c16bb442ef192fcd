import type { Db } from "../../kernel/db.ts";
import { bigint, bytea, list, nullable, row, type RowOf, sql, type Statement, text, textOf, timestamptz } from "../../kernel/sql.ts";
import type { Codec } from "./codec.ts";

const positionRow = row({ robot_id: text, outbox_id: text, seq: bigint });

/**
 * Returns the highest stored record number of each of these spools (log buffers on robots). Returns 0 for a spool that is not the last one
 * of its robot, and for a robot without stored records.
 */
export async function logPositions(db: Db, org_id: string, spools: readonly { robot_id: string; outbox_id: string }[]): Promise<number[]> {
  const rows = await db.many(
    sql(positionRow)`
      select ${positionRow} from log_position where org_id = ${org_id} and robot_id = any(${list(spools.map(({ robot_id }) => robot_id))}::text[])`,
  );
  const known = new Map(rows.map((position) => [position.robot_id, position]));
  return spools.map(({ robot_id, outbox_id }) => {
    const position = known.get(robot_id);
    return position?.outbox_id === outbox_id ? position.seq : 0;
  });
}

const storedPositionRow = row({ outbox_id: text, seq: bigint, updated_at: timestamptz });
/** Returns the last spool of a robot, the highest record number stored from it, and the time of that record's receipt. */
export const findPosition = (db: Db, org_id: string, robot_id: string): Promise<RowOf<typeof storedPositionRow> | undefined> =>
  db.maybe(sql(storedPositionRow)`select ${storedPositionRow} from log_position where org_id = ${org_id} and robot_id = ${robot_id}`);

export const logPosition = async (db: Db, org_id: string, robot_id: string, outbox_id: string): Promise<number> =>
  (await logPositions(db, org_id, [{ robot_id, outbox_id }]))[0] ?? 0;

export interface NewBatch {
  org_id: string;
  robot_id: string;
  outbox_id: string;
  /** The expected end position of the log. If the stored position differs, the batch is not stored. */
  before: number;
  first_seq: number;
  last_seq: number;
  received_at: Date;
  first_at: Date;
  last_at: Date;
  record_count: number;
  codec: Codec;
  packed: Buffer;
}

/**
 * Stores the batch and moves the position of the log, atomically and in one round trip. Returns 0, and changes nothing, if the stored
 * position is not `before`.
 */
export const insertBatch = (db: Db, b: NewBatch): Promise<number> =>
  db.run(sql`
    with moved as (
      insert into log_position as p (org_id, robot_id, outbox_id, seq, updated_at)
      values (${b.org_id}, ${b.robot_id}, ${b.outbox_id}, ${b.last_seq}, ${b.received_at})
      on conflict (org_id, robot_id) do update set outbox_id = excluded.outbox_id, seq = excluded.seq, updated_at = excluded.updated_at
      where case when p.outbox_id = excluded.outbox_id then p.seq = ${b.before}::bigint else ${b.before}::bigint = 0 end
      returning p.org_id, p.robot_id)
    insert into log_batch (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
    select org_id, robot_id, ${b.first_seq}::bigint, ${b.last_seq}::bigint, ${b.received_at}::timestamptz, ${b.first_at}::timestamptz,
      ${b.last_at}::timestamptz, ${b.record_count}::int, ${b.codec}::text, ${b.packed}::bytea
    from moved`);

const storedRow = row({ robot_id: text });

/**
 * Like `insertBatch`, but for several distinct robots of one org, in one statement and one commit. Returns the robots whose batch was
 * stored. Locks rows in the order of robot ids, so that concurrent calls do not deadlock.
 */
export async function insertBatches(db: Db, org_id: string, batches: readonly NewBatch[]): Promise<Set<string>> {
  const of = (read: (batch: NewBatch) => string | number | Date) => list(batches.map(read));
  let end = 1;
  const begins = batches.map(({ packed }) => (end += packed.length) - packed.length);
  // Pass the bytes of all batches in one parameter, because bytes in an array would be encoded as hex.
  const rows = await db.many(sql(storedRow)`
    with v as (
      select * from unnest(${of((b) => b.robot_id)}::text[], ${of((b) => b.outbox_id)}::text[], ${of((b) => b.before)}::bigint[],
        ${of((b) => b.first_seq)}::bigint[], ${of((b) => b.last_seq)}::bigint[], ${of((b) => b.received_at)}::timestamptz[],
        ${of((b) => b.first_at)}::timestamptz[], ${of((b) => b.last_at)}::timestamptz[], ${of((b) => b.record_count)}::int[],
        ${of((b) => b.codec)}::text[], ${list(begins)}::int[], ${of((b) => b.packed.length)}::int[])
        as v (robot_id, outbox_id, before, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, begins, bytes)),
    moved as (
      insert into log_position as p (org_id, robot_id, outbox_id, seq, updated_at)
      select ${org_id}, robot_id, outbox_id, last_seq, received_at from v order by robot_id
      on conflict (org_id, robot_id) do update set outbox_id = excluded.outbox_id, seq = excluded.seq, updated_at = excluded.updated_at
      where (select v.before from v where v.robot_id = p.robot_id) = case when p.outbox_id = excluded.outbox_id then p.seq else 0 end
      returning p.robot_id)
    insert into log_batch (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
    select ${org_id}, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec,
      substring(${Buffer.concat(batches.map(({ packed }) => packed))}::bytea from begins for bytes)
    from moved join v using (robot_id)
    returning robot_id`);
  return new Set(rows.map(({ robot_id }) => robot_id));
}

export const batchRow = row({
  robot_id: text,
  first_seq: bigint,
  last_seq: bigint,
  received_at: timestamptz,
  codec: textOf<Codec>(),
  records: bytea,
});
export type BatchRow = RowOf<typeof batchRow>;

/** Identifies a batch, and defines the order of the batches of a robot or fleet. */
export interface BatchKey {
  received_at: Date;
  robot_id: string;
  first_seq: number;
}

export interface BatchFilter {
  since: Date | undefined;
  until: Date | undefined;
}

/**
 * A position in one robot's log: the number of a record and the time of its receipt. Receive times never decrease within a log, and numbers
 * increase within a spool, even if the robot moves to a server with another clock. Only positions of the same robot can be compared.
 */
export interface LogPosition {
  received_at: string;
  seq: number;
}

/** Whether the position `one` is before `other` in the log of the same robot. Undefined means the start of the log. */
export const isBefore = (one: LogPosition | undefined, other: LogPosition | undefined): boolean =>
  other !== undefined &&
  (one === undefined || one.received_at < other.received_at || (one.received_at === other.received_at && one.seq < other.seq));

/** Whether two positions of a robot are equal. */
export const isSame = (one: LogPosition | undefined, other: LogPosition | undefined): boolean =>
  one !== undefined && other !== undefined && one.received_at === other.received_at && one.seq === other.seq;

/**
 * Maximum by which a robot's clock may be ahead of the server's clock so that a search with `since` still finds all of the robot's records.
 */
export const CLOCK_AHEAD_MS_MAX = 3_600_000;

/** Returns ` and …`, which selects the batches that may have records of the period. */
export function matching({ since, until }: BatchFilter): Statement<unknown> {
  const received_from = since === undefined ? undefined : new Date(since.getTime() - CLOCK_AHEAD_MS_MAX);
  return sql`
    ${since === undefined ? sql`` : sql`and last_at >= ${since}`}
    ${received_from === undefined ? sql`` : sql`and received_at >= ${received_from}`}
    ${until === undefined ? sql`` : sql`and first_at < ${until}`}`;
}

/** Returns a robot's batches, newest first, starting with `from`. */
export const robotBatches = (
  db: Db,
  org_id: string,
  robot_id: string,
  filter: BatchFilter,
  from: BatchKey | undefined,
  limit: number,
): Promise<BatchRow[]> =>
  db.many(sql(batchRow)`
    select ${batchRow} from log_batch where org_id = ${org_id} and robot_id = ${robot_id}
      ${from === undefined ? sql`` : sql`and (received_at, first_seq) <= (${from.received_at}, ${from.first_seq})`} ${matching(filter)}
    order by received_at desc, first_seq desc limit ${limit}`);

/** Returns a robot's batches after `after`, oldest first. */
export const batchesAfter = (
  db: Db,
  org_id: string,
  robot_id: string,
  filter: BatchFilter,
  after: BatchKey | undefined,
  limit: number,
): Promise<BatchRow[]> =>
  db.many(sql(batchRow)`
    select ${batchRow} from log_batch where org_id = ${org_id} and robot_id = ${robot_id}
      ${after === undefined ? sql`` : sql`and (received_at, first_seq) > (${after.received_at}, ${after.first_seq})`} ${matching(filter)}
    order by received_at, first_seq limit ${limit}`);

const idRow = row({ id: text });

/** Returns the robots of a fleet in order of creation. */
export async function robotsOfFleet(db: Db, org_id: string, fleet_id: string): Promise<string[]> {
  // reads tables of other features: robot
  const robots = await db.many(sql(idRow)`
    select id from robot where org_id = ${org_id} and fleet_id = ${fleet_id} and decommissioned_at is null order by id`);
  return robots.map(({ id }) => id);
}

const fleetPositionRow = row({ robot_id: text, seq: nullable(bigint), updated_at: nullable(timestamptz) });

/**
 * Returns the end position of the log of each robot of a fleet. The position is undefined if the robot never logged. With `robot_id`,
 * returns only this robot's position, if the robot is in the fleet.
 */
export async function fleetPositions(
  db: Db,
  org_id: string,
  fleet_id: string,
  robot_id?: string,
): Promise<Map<string, LogPosition | undefined>> {
  // reads tables of other features: robot
  const rows = await db.many(sql(fleetPositionRow)`
    select r.id as robot_id, p.seq, p.updated_at from robot r left join log_position p on p.org_id = r.org_id and p.robot_id = r.id
    where r.org_id = ${org_id} and r.fleet_id = ${fleet_id} and r.decommissioned_at is null
      ${robot_id === undefined ? sql`` : sql`and r.id = ${robot_id}`}`);
  return new Map(
    rows.map(({ robot_id, seq, updated_at }) => [
      robot_id,
      seq === null || updated_at === null ? undefined : { received_at: updated_at.toISOString(), seq },
    ]),
  );
}

/** Like `robotBatches`, but for all robots of a fleet. Omits batches received before `not_before`. */
export const fleetBatches = (
  db: Db,
  org_id: string,
  fleet_id: string,
  filter: BatchFilter,
  from: BatchKey | undefined,
  not_before: Date | undefined,
  limit: number,
): Promise<BatchRow[]> =>
  // reads tables of other features: robot
  db.many(sql(batchRow)`
    select ${batchRow} from log_batch
    where org_id = ${org_id}
      and robot_id = any (array(select id from robot where org_id = ${org_id} and fleet_id = ${fleet_id} and decommissioned_at is null))
      ${from === undefined ? sql`` : sql`and (received_at, robot_id, first_seq) <= (${from.received_at}, ${from.robot_id}, ${from.first_seq}) and received_at <= ${from.received_at}`}
      ${not_before === undefined ? sql`` : sql`and received_at >= ${not_before}`} ${matching(filter)}
    order by received_at desc, robot_id desc, first_seq desc limit ${limit}`);
