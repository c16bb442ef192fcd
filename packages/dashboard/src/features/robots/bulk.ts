import type { BulkOutcome } from "@roamfleet/protocol/routes";
import { api } from "../../api/client.ts";
import { readAgain } from "../../api/read-again.ts";
import { randomId } from "../../api/random-id.ts";
import { type BulkChange, chunks } from "./bulk-change.ts";

/**
 * Changes robots in parts and reports the result of each part. A sent part is completed; after an abort or an error, no further part
 * is sent.
 */
export async function runBulk(
  robot_ids: readonly string[],
  change: BulkChange,
  tell: (outcomes: readonly BulkOutcome[]) => void,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (const part of chunks(robot_ids)) {
      if (signal.aborted) return;
      const { items } = await api.bulkUpdateRobots({ body: { robot_ids: part, ...change }, idempotency_key: randomId() });
      tell(items);
    }
  } finally {
    readAgain();
  }
}
