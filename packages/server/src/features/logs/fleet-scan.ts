import type { Clock } from "@roamfleet/clock";
import type { Db } from "../../kernel/db.ts";
import type { BatchScan } from "./read.ts";
import { type BatchFilter, fleetBatches } from "./store.ts";

const FIRST_WINDOW_MS = 4_000;
const WINDOW_GROWTH = 8;
/** A wider window has no lower bound. */
const WINDOW_MS_MAX = 40 * 86_400_000;

/**
 * Searches the batches of a fleet in growing time windows. For a thousand robots that log each second, it reads a few seconds of
 * batches; for a fleet without logs for a week, it needs a few more queries. Returns no batch received before `received_from`.
 */
export function fleetScan(db: Db, clock: Clock, org_id: string, fleet_id: string, filter: BatchFilter, received_from?: Date): BatchScan {
  let window_ms = FIRST_WINDOW_MS;
  return async (from, limit) => {
    const end = Math.min(from?.received_at.getTime() ?? Infinity, clock.now().getTime());
    for (;;) {
      const reaches = window_ms > WINDOW_MS_MAX ? -Infinity : end - window_ms;
      const is_all = reaches <= (received_from?.getTime() ?? -Infinity);
      const not_before = is_all ? received_from : new Date(reaches);
      const batches = await fleetBatches(db, org_id, fleet_id, filter, from, not_before, limit);
      if (batches.length === limit || is_all) return batches;
      window_ms *= WINDOW_GROWTH;
    }
  };
}
