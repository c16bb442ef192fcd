import { decodeChunk, encodeChunk } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import { admit, type DropReason } from "./admit.ts";
import { insertChunks, type NewChunk } from "./store.ts";

/** Maximum chunks in one statement, and maximum concurrent statements, each for a different org. */
const BATCH_CHUNKS_MAX = 64;
const BATCHES_AT_ONCE = 2;

/** Batches the writes: chunks that arrive during a write are stored by the next one. */
const batcherOf = planeState(
  ({ db, db_errors }: Plane) =>
    new KeyedBatcher<NewChunk, boolean>({
      min_interval_ms: 0,
      items_max: BATCH_CHUNKS_MAX,
      concurrency_max: BATCHES_AT_ONCE,
      uniqueBy: ({ robot_id }) => robot_id,
      affectsAll: (error) => db_errors.isOutage(error),
      work: async (org_id, chunks) => {
        const stored = await insertChunks(db.forOrg(org_id), org_id, chunks);
        return chunks.map(({ robot_id }) => stored.has(robot_id));
      },
    }),
);

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
