import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { type DailyTable, keepPartitions, oldestKept, sortPastDays } from "../../kernel/daily-partitions.ts";
import { expireUnsent } from "./remote-write/store.ts";

const EVERY_MS = 3_600_000;
const CHUNKS: DailyTable = { name: "metric_chunk", column: "first_at", lock: 7_600_003 };
/** Exported for the benchmark. */
export const ROLLUPS: DailyTable = { name: "metric_rollup", column: "day", lock: 7_600_004 };

/** Creates the partitions of the coming days, drops those past the retention time and sorts past days, immediately and then each hour. */
export async function startMetricRetention(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const { metric_raw_retention_days: days, metric_rollup_retention_days } = plane.settings.limits;
  const work = background(plane, "metric partitions", EVERY_MS, async () => {
    const { chunks } = await expireUnsent(plane.db, oldestKept(plane.retention_clock, days));
    if (chunks > 0) {
      plane.metrics.remote_write_chunks_expired.inc(chunks);
      plane.log.error({ chunks }, "samples were deleted by age before remote write could send them");
    }
    await keepPartitions(plane, CHUNKS, days);
    await keepPartitions(plane, ROLLUPS, metric_rollup_retention_days);
    await sortPastDays(plane, ROLLUPS);
  });
  // If this fails, the error is logged and the job is retried. Meanwhile, the default partition takes new rows.
  work.wake();
  await work.settled();
  return work;
}
