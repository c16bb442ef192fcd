import type { Db, SystemDb } from "../../../kernel/db.ts";
import { bigint, bytea, int, list, nullable, row, type RowOf, sql, text, timestamptz } from "../../../kernel/sql.ts";

/** Robots of one turn, and chunks of each of them. All chunks of a turn are in memory: at most 15 MB. */
export const TURN_ROBOTS_MAX = 32;
const TURN_CHUNKS_PER_ROBOT_MAX = 8;

const shardRow = row({ shard: int });

/** Creates the shards, once. A migration may not do it: a restore needs empty tables. */
export const createShards = (db: SystemDb): Promise<number> =>
  db.run(sql`
    -- across orgs: a shard contains robots of all orgs
    insert into metric_shard (shard) select generate_series(0, 7) on conflict do nothing`);

/** Leases shards with unsent chunks, those first that have waited longest. Each shard is leased by one node at a time. */
export const claimShards = async (
  db: SystemDb,
  { now, leased_until, limit }: { now: Date; leased_until: Date; limit: number },
): Promise<number[]> =>
  (
    await db.many(sql(shardRow)`
      -- across orgs: a shard contains robots of all orgs
      with free as (
        select shard from metric_shard s
        where (s.leased_until is null or s.leased_until <= ${now}) and exists (
          select from metric_position p where hashtext(p.robot_id) & 7 = s.shard and p.queued_at is not null)
        order by s.served_at nulls first, s.shard limit ${limit} for update skip locked)
      update metric_shard s set leased_until = ${leased_until}, served_at = ${now} from free
      where s.shard = free.shard returning s.shard`)
  ).map(({ shard }) => shard);

/** Ends a lease, unless it has expired and another node has the shard. */
export const releaseShard = (db: SystemDb, shard: number, leased_until: Date): Promise<number> =>
  db.run(sql`update metric_shard set leased_until = null where shard = ${shard} and leased_until = ${leased_until}`);

const unsentRow = row({
  org_id: text,
  site_id: text,
  fleet_id: text,
  robot_id: text,
  robot_name: text,
  number: nullable(bigint),
  chunk: nullable(bytea),
});
export type UnsentRow = RowOf<typeof unsentRow>;

/**
 * Returns the oldest unsent chunks of the robots of a shard whose turn it is. The chunks of a robot are in the order in which they were
 * stored. A robot without an unsent chunk has one row, with nulls.
 */
export const listUnsent = (db: SystemDb, shard: number): Promise<UnsentRow[]> =>
  db.many(sql(unsentRow)`
    -- across orgs: a shard contains robots of all orgs
    -- reads tables of other features: robot
    with turn as (
      select * from metric_position p where hashtext(p.robot_id) & 7 = ${shard} and p.queued_at is not null
      order by p.queued_at limit ${TURN_ROBOTS_MAX})
    select t.org_id, r.site_id, r.fleet_id, t.robot_id, r.name as robot_name, c.number, c.chunk
    from turn t join robot r on r.org_id = t.org_id and r.id = t.robot_id
    left join lateral (
      select c.number, c.chunk from metric_chunk c
      where c.org_id = t.org_id and c.robot_id = t.robot_id and c.first_at >= t.unsent_from and c.number > t.sent_number
      order by c.number limit ${TURN_CHUNKS_PER_ROBOT_MAX}) c on true
    order by t.queued_at, t.org_id, t.robot_id, c.number`);

export interface SentPosition {
  org_id: string;
  robot_id: string;
  /** Number of the last sent chunk. */
  number: number;
}

const lockedRow = row({ robot_id: text });

/**
 * Moves the positions of distinct robots. Robots with further chunks go to the end of the queue. The rows are locked by a separate statement
 * first: the next one then sees every chunk that was stored before, because storing a chunk locks the same row.
 */
export const putSent = (db: SystemDb, positions: readonly SentPosition[], now: Date): Promise<void> =>
  db.transaction(async (tx) => {
    const sent = sql`unnest(${list(positions.map((one) => one.org_id))}::text[], ${list(positions.map((one) => one.robot_id))}::text[],
      ${list(positions.map((one) => one.number))}::bigint[]) as v (org_id, robot_id, number)`;
    await tx.many(sql(lockedRow)`
      select p.robot_id from metric_position p join ${sent} on v.org_id = p.org_id and v.robot_id = p.robot_id
      order by p.org_id, p.robot_id for update of p`);
    await tx.run(sql`
      update metric_position p set sent_number = greatest(p.sent_number, rest.number), unsent_from = rest.first_at,
        queued_at = case when rest.first_at is not null then ${now}::timestamptz end
      from (
        select q.org_id, q.robot_id, v.number, (
          select min(c.first_at) from metric_chunk c where c.org_id = q.org_id and c.robot_id = q.robot_id
            and c.first_at >= q.unsent_from and c.number > greatest(q.sent_number, v.number)) as first_at
        from metric_position q join ${sent} on v.org_id = q.org_id and v.robot_id = q.robot_id) rest
      where p.org_id = rest.org_id and p.robot_id = rest.robot_id`);
  });

const backlogRow = row({ chunks: bigint, oldest_at: nullable(timestamptz) });

/** Returns the number of unsent chunks, and the time of the oldest unsent sample. */
export const readBacklog = (db: SystemDb): Promise<RowOf<typeof backlogRow>> =>
  db.one(sql(backlogRow)`
    -- across orgs: statistics of the whole service
    select coalesce(sum(last_number - sent_number), 0)::bigint as chunks, min(unsent_from) as oldest_at
    from metric_position where queued_at is not null`);

const countRow = row({ chunks: bigint });

/** Removes chunks that begin before `oldest` from the queue, because retention deletes them. Returns their number. */
export const expireUnsent = (db: Db, oldest: Date): Promise<RowOf<typeof countRow>> =>
  db.one(sql(countRow)`
    -- across orgs: retention is the same for all
    with late as (
      select org_id, robot_id, unsent_from, sent_number from metric_position where queued_at is not null and unsent_from < ${oldest}),
    moved as (
      update metric_position p set unsent_from = ${oldest} from late l where p.org_id = l.org_id and p.robot_id = l.robot_id)
    select count(*)::bigint as chunks from late l join metric_chunk c on c.org_id = l.org_id and c.robot_id = l.robot_id
      and c.first_at >= l.unsent_from and c.number > l.sent_number
    where c.first_at < ${oldest}`);
