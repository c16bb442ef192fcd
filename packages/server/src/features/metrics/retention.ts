import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { type DailyTable, keepPartitions } from "../../kernel/daily-partitions.ts";

const EVERY_MS = 3_600_000;
const CHUNKS: DailyTable = { name: "metric_chunk", column: "first_at", lock: 7_600_003 };
const ROLLUPS: DailyTable = { name: "metric_rollup", column: "day", lock: 7_600_004 };

/** Creates the partitions of the coming days and drops those past the retention time, immediately and then each hour. */
export async function startMetricRetention(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const work = background(plane, "metric partitions", EVERY_MS, async () => {
    const { metric_raw_retention_days, metric_rollup_retention_days } = plane.settings.limits;
    await keepPartitions(plane, CHUNKS, metric_raw_retention_days);
    await keepPartitions(plane, ROLLUPS, metric_rollup_retention_days);
  });
  // If this fails, the error is logged and the job is retried. Meanwhile, the default partition takes new rows.
  work.wake();
  await work.settled();
  return work;
}
