import type { Db } from "../../kernel/db.ts";
import { bytea, list, row, type RowOf, sql, text } from "../../kernel/sql.ts";
import { CHUNK_SPAN_MS_MAX } from "./admit.ts";

export interface NewChunk {
  robot_id: string;
  outbox_id: string;
  seq: number;
  /** Undefined: no sample is within the bounds. */
  samples: { first_at: Date; last_at: Date; chunk: Uint8Array } | undefined;
  dropped_count: number;
}

const storedRow = row({ robot_id: text });

/**
 * Stores chunks of distinct robots and moves the robots' positions, in one statement. Returns the robots whose chunk was new: a number up
 * to the position of the same spool is a duplicate. With `queued_at`, the chunks are queued for remote write. Locks rows in the order of
 * robot ids, so that concurrent calls do not deadlock.
 */
export async function insertChunks(db: Db, org_id: string, chunks: readonly NewChunk[], queued_at: Date | null): Promise<Set<string>> {
  const of = (read: (chunk: NewChunk) => string | number | Date | null) => list(chunks.map(read));
  const bytes = chunks.map(({ samples }) => samples?.chunk ?? new Uint8Array());
  let end = 1;
  const begins = bytes.map(({ length }) => (end += length) - length);
  // Pass the bytes of all chunks in one parameter, because bytes in an array would be encoded as hex.
  const rows = await db.many(sql(storedRow)`
    with v as (
      select * from unnest(${of((c) => c.robot_id)}::text[], ${of((c) => c.outbox_id)}::text[], ${of((c) => c.seq)}::bigint[],
        ${of((c) => c.samples?.first_at ?? null)}::timestamptz[], ${of((c) => c.samples?.last_at ?? null)}::timestamptz[],
        ${of((c) => c.dropped_count)}::bigint[], ${list(begins)}::int[], ${list(bytes.map(({ length }) => length))}::int[])
        as v (robot_id, outbox_id, seq, first_at, last_at, dropped, begins, bytes)),
    moved as (
      insert into metric_position as p (org_id, robot_id, outbox_id, seq, dropped_samples, last_number, unsent_from, queued_at)
      select ${org_id}, robot_id, outbox_id, seq, dropped, 1, case when queued_at is not null then first_at end,
        case when first_at is not null then queued_at end
      from v cross join (select ${queued_at}::timestamptz as queued_at) q order by robot_id
      on conflict (org_id, robot_id) do update set outbox_id = excluded.outbox_id, seq = excluded.seq,
        dropped_samples = p.dropped_samples + excluded.dropped_samples, last_number = p.last_number + 1,
        sent_number = case when p.queued_at is null then p.last_number else p.sent_number end,
        unsent_from = least(p.unsent_from, excluded.unsent_from), queued_at = coalesce(p.queued_at, excluded.queued_at)
      where p.outbox_id <> excluded.outbox_id or p.seq < excluded.seq
      returning p.robot_id, p.last_number),
    stored as (
      insert into metric_chunk (org_id, robot_id, first_at, last_at, seq, number, chunk)
      select ${org_id}, robot_id, first_at, last_at, seq, last_number, substring(${Buffer.concat(bytes)}::bytea from begins for bytes)
      from moved join v using (robot_id) where first_at is not null
      -- a robot whose disk was restored sends its chunks again from a spool with a new name
      on conflict (org_id, robot_id, first_at, seq) do nothing)
    select robot_id from moved`);
  return new Set(rows.map(({ robot_id }) => robot_id));
}

const chunkRow = row({ robot_id: text, chunk: bytea });
export type ChunkRow = RowOf<typeof chunkRow>;

/** Maximum chunks of one read: three days of a robot that flushes each minute. */
export const CHUNKS_MAX = 4_400;

/** Returns the chunks of robots that may have samples from `since` to before `until`, oldest first. Omits the oldest beyond CHUNKS_MAX. */
export const chunksBetween = async (
  db: Db,
  org_id: string,
  { robots, since, until }: { robots: readonly string[]; since: Date; until: Date },
): Promise<ChunkRow[]> =>
  (
    await db.many(sql(chunkRow)`
      select ${chunkRow} from metric_chunk
      where org_id = ${org_id} and robot_id = any(${list(robots)}::text[]) and first_at >= ${new Date(since.getTime() - CHUNK_SPAN_MS_MAX)}
        and first_at < ${until} and last_at >= ${since}
      order by first_at desc, seq desc limit ${CHUNKS_MAX}`)
  ).toReversed();
