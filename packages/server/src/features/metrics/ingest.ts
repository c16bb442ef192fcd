import { ChunkError, decodeChunk, encodeChunk, type Samples } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";
import type { Session } from "../../link/index.ts";
import { storePositions } from "../positions/index.ts";
import { admit, type DropReason } from "./admit.ts";
import { insertChunks, type NewChunk } from "./store.ts";
import { listWatches } from "./store-watches.ts";
import { type StoredSamples, updateValues } from "./watches.ts";

/** Maximum chunks in one statement, and maximum concurrent statements, each for a different org. */
const BATCH_CHUNKS_MAX = 64;
const BATCHES_AT_ONCE = 2;

/** Batches the writes: chunks that arrive during a write are stored by the next one. */
const batcherOf = planeState(
  ({ db, db_errors, clock, settings }: Plane) =>
    new KeyedBatcher<NewChunk & StoredSamples, boolean>({
      min_interval_ms: 0,
      items_max: BATCH_CHUNKS_MAX,
      concurrency_max: BATCHES_AT_ONCE,
      uniqueBy: ({ robot_id }) => robot_id,
      affectsAll: (error) => db_errors.isOutage(error),
      work: async (org_id, chunks) => {
        const queued_at = settings.metric_endpoints?.write === undefined ? null : clock.now();
        const org_db = db.forOrg(org_id);
        const stored = await insertWatched(org_db, org_id, chunks, queued_at);
        // Not in the transaction of the chunks: after a failure, the robot's next chunk has its position.
        await storePositions(
          org_db,
          org_id,
          chunks.filter(({ robot_id }) => stored.has(robot_id)),
        );
        return chunks.map(({ robot_id }) => stored.has(robot_id));
      },
    }),
);

/** Stores chunks. If alert rules use metrics, also writes their values, in the same transaction. */
async function insertWatched(
  db: Db,
  org_id: string,
  chunks: readonly (NewChunk & StoredSamples)[],
  queued_at: Date | null,
): Promise<Set<string>> {
  const watches = await listWatches(db, org_id);
  if (watches.length === 0) return insertChunks(db, org_id, chunks, queued_at);
  return db.transaction(async (tx) => {
    const stored = await insertChunks(tx, org_id, chunks, queued_at);
    await updateValues(
      tx,
      org_id,
      watches,
      chunks.filter(({ robot_id }) => stored.has(robot_id)),
    );
    return stored;
  });
}

/**
 * Maximum rate of a robot's chunks in bytes; the burst is more than a robot collects while it is offline. A robot with more is read more
 * slowly, because decoding takes up to 5 ms of the event loop for each chunk.
 */
export const CHUNK_RATE = { per_minute: 600_000, burst: 6 * 1024 * 1024 };
/** Bytes that each chunk costs in the rate limit in addition to its own. */
const CHUNK_COST_BYTES = 1_024;
const rateOf = planeState(({ clock }: Plane) => new RateLimit(clock, "samples", CHUNK_RATE));

/**
 * Stores a robot's chunk of samples, then acknowledges it. A damaged chunk is counted and acknowledged too: the robot would send it again
 * for ever.
 */
export async function takeSamples(plane: Plane, session: Session, { spool_id, seq, chunk }: Samples): Promise<void> {
  const { org_id, robot_id } = session;
  const bytes = Buffer.from(chunk, "base64");
  const owed_ms = rateOf(plane).owe(robot_id, bytes.length + CHUNK_COST_BYTES);
  if (owed_ms > 0) session.pauseReading(owed_ms);
  try {
    await storeSamples(plane, org_id, robot_id, { outbox_id: spool_id, seq, chunk: bytes });
  } catch (error) {
    if (!(error instanceof ChunkError)) throw error;
    plane.metrics.metric_samples_dropped.inc({ reason: "damaged" });
    plane.log.warn({ robot_id, reason: error.message }, "a chunk of samples could not be read");
  }
  session.send({ type: "samples_ack", spool_id, seq });
}

interface SentChunk {
  /** Id of the spool on the robot's disk. Sequence numbers are unique within one spool. */
  outbox_id: string;
  seq: number;
  chunk: Uint8Array;
}

/**
 * Stores a robot's chunk of samples once. When it resolves, the robot may drop the chunk: it is stored, or its number was stored before.
 * Samples that exceed a bound are counted and not stored.
 *
 * @throws ChunkError if the chunk is damaged.
 */
export async function storeSamples(plane: Plane, org_id: string, robot_id: string, { outbox_id, seq, chunk }: SentChunk): Promise<void> {
  const { metric_series_per_robot_max: series_max, metric_raw_retention_days: retention_days } = plane.settings.limits;
  const { series, dropped, dropped_count, sample_count, first_at, last_at } = admit(decodeChunk(chunk), {
    series_max,
    retention_days,
    now: plane.clock.now().getTime(),
  });
  const is_new = await batcherOf(plane).add(org_id, {
    robot_id,
    outbox_id,
    seq,
    series,
    samples:
      first_at === undefined || last_at === undefined
        ? undefined
        : { first_at: new Date(first_at), last_at: new Date(last_at), chunk: dropped_count === 0 ? chunk : encodeChunk(series) },
    dropped_count,
  });
  if (!is_new) return;
  plane.metrics.metric_samples.inc(sample_count);
  for (const [reason, count] of Object.entries(dropped) as [DropReason, number][])
    if (count > 0) plane.metrics.metric_samples_dropped.inc({ reason }, count);
}
