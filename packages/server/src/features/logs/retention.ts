import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { type DailyTable, keepPartitions } from "../../kernel/daily-partitions.ts";
import { deleteUsage } from "./store-usage.ts";
import { startLogUsage } from "./usage.ts";

const EVERY_MS = 3_600_000;
const BATCHES: DailyTable = { name: "log_batch", column: "received_at", lock: 7_600_001 };

/**
 * Creates the partitions of the coming days and drops those past the retention time, now and each hour. Each minute deletes the
 * oldest logs of orgs above their limit.
 */
export async function startLogRetention(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const work = background(plane, "log partitions", EVERY_MS, async () => {
    const { oldest } = await keepPartitions(plane, BATCHES, plane.settings.limits.log_retention_days);
    await deleteUsage(plane.db, oldest);
  });
  // A failure is logged and retried; meanwhile the default partition takes new rows.
  work.wake();
  await work.settled();
  const usage = startLogUsage(plane);
  return { stop: async () => void (await Promise.all([work.stop(), usage.stop()])) };
}
