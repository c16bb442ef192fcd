import { ChunkError, decodeChunk } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import type { Db } from "../../kernel/db.ts";
import { isolateEach } from "../../kernel/isolate-failures.ts";
import { yieldToEventLoop } from "../../kernel/yield.ts";
import { DayOfSamples } from "./rollup.ts";
import { chunksOfDay } from "./store.ts";
import { type DueDay, listDueDays, putRollups, takeDueDay } from "./store-rollups.ts";

const EVERY_MS = 30_000;
/** Days of one search. */
const DAYS_AT_ONCE = 100;
/** Maximum duration of one pass, so that rollups take at most a tenth of the time. What remains is left to the next pass. */
const PASS_MS = 3_000;

/**
 * Starts to reduce samples to rollups: a marked day of a robot is computed again from all of its chunks. So a rollup has each sample once,
 * whenever its chunk arrives, and after a crash at any point. On several nodes, each day is computed by the node that takes its mark.
 */
export const startRollups = (plane: Plane): { stop(): Promise<void> } =>
  background(plane, "metric rollups", EVERY_MS, () => rollUpDue(plane));

/** Computes the marked days, the longest waiting first, for at most PASS_MS. */
export async function rollUpDue(plane: Plane): Promise<void> {
  const { db, db_errors, clock, log } = plane;
  const began = clock.monotonic();
  for (;;) {
    const due = await listDueDays(db, DAYS_AT_ONCE);
    const in_time = (): boolean => clock.monotonic() - began < PASS_MS;
    const failures = await isolateEach(due, db_errors.isOutage, async (day) => {
      if (in_time()) await rollUp(db.forOrg(day.org_id), day);
    });
    if (failures !== undefined) log.error({ err: failures.error, days: failures.failed.length }, "metric rollups could not be computed");
    if (failures !== undefined || due.length < DAYS_AT_ONCE || !in_time()) return;
  }
}

const rollUp = (db: Db, { org_id, robot_id, day }: DueDay): Promise<void> =>
  db.transaction(async (tx) => {
    if (!(await takeDueDay(tx, org_id, { robot_id, day }))) return;
    const samples = new DayOfSamples(day.getTime());
    for (const { chunk } of await chunksOfDay(tx, org_id, robot_id, day)) {
      addChunk(samples, chunk);
      await yieldToEventLoop();
    }
    await putRollups(tx, org_id, { robot_id, day }, samples.rollups());
  });

function addChunk(samples: DayOfSamples, chunk: Buffer): void {
  try {
    for (const series of decodeChunk(chunk)) samples.add(series);
  } catch (error) {
    // Damaged on the disk: the others stay readable.
    if (!(error instanceof ChunkError)) throw error;
  }
}
