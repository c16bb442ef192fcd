import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { background, type Background } from "./background.ts";
import type { Db } from "./db.ts";
import { row, sql, text } from "./sql.ts";

export interface RetentionContext {
  db: Db;
  clock: Clock;
  retention_clock: Pick<Clock, "now">;
  log: Logger;
}

const DAY_MS = 86_400_000;
const EVERY_MS = 3_600_000;
/** Maximum rows of one delete statement. A statement of this size takes tens of milliseconds, so no lock or snapshot is kept for long. */
export const BATCH_ROWS_MAX = 5_000;

/** Calls `drop` each hour, which deletes rows older than `days` days. If `days` is 0, nothing is deleted. Nodes may run it concurrently. */
export const startRetention = (context: RetentionContext, name: string, days: number, drop: (before: Date) => Promise<void>): Background =>
  background(context, name, EVERY_MS, async () => {
    if (days > 0) await drop(new Date(context.retention_clock.now().getTime() - days * DAY_MS));
  });

/** Calls `batch` until it deletes fewer than BATCH_ROWS_MAX rows. Returns how many rows were deleted. */
export async function deleteInBatches(batch: (limit: number) => Promise<number>): Promise<number> {
  for (let deleted = 0; ;) {
    const rows = await batch(BATCH_ROWS_MAX);
    deleted += rows;
    if (rows < BATCH_ROWS_MAX) return deleted;
  }
}

/** Maximum consecutive failed batches. Finding one bad row among BATCH_ROWS_MAX rows by bisection takes 13 failed batches. */
const FAILURES_MAX = 200;

/**
 * Like `deleteInBatches`, but skips rows that cannot be deleted: a failed batch is halved until the bad row is found. `batch` deletes up to
 * `limit` rows in its own transaction, in a fixed order, after skipping the first `offset` rows. Rejects with the first error after the
 * other rows are deleted. Rejects immediately with an error that `isOutage` accepts.
 */
export async function deleteIsolated(
  isOutage: (error: unknown) => boolean,
  batch: (limit: number, offset: number) => Promise<number>,
): Promise<number> {
  let [limit, offset, deleted, failures] = [BATCH_ROWS_MAX, 0, 0, 0];
  let first: { error: unknown } | undefined;
  for (let found = limit; found >= limit;) {
    try {
      found = await batch(limit, offset);
      deleted += found;
      failures = 0;
      if (found >= limit) limit = found = Math.min(BATCH_ROWS_MAX, limit * 2);
    } catch (error) {
      if (isOutage(error)) throw error;
      first ??= { error };
      failures += 1;
      if (failures === FAILURES_MAX) break;
      if (limit === 1) offset += 1;
      limit = Math.ceil(limit / 2);
      found = limit;
    }
  }
  if (first !== undefined) throw first.error;
  return deleted;
}

const idRow = row({ id: text });

/** Returns every org. */
export const listOrgIds = async (db: Db): Promise<string[]> =>
  // reads tables of other features: org
  (await db.many(sql(idRow)`select id from org order by id`)).map(({ id }) => id);

/** Calls `work` for each org. A failure is logged and the next org follows. */
export async function forEachOrg(
  { log }: Pick<RetentionContext, "log">,
  name: string,
  org_ids: readonly string[],
  work: (org_id: string) => Promise<void>,
): Promise<void> {
  for (const org_id of org_ids) {
    try {
      await work(org_id);
    } catch (error) {
      log.error({ err: error, org_id, work: name }, "retention failed for an org");
    }
  }
}
