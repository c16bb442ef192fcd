import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import type { Db } from "../../kernel/db.ts";
import { isolateEach } from "../../kernel/isolate-failures.ts";
import { seriesOf } from "../../kernel/stored-series.ts";
import { yieldToEventLoop } from "../../kernel/yield.ts";
import { DAY_MS, dayOf, DayOfSamples } from "./rollup.ts";
import {
  chunksNumbered,
  type DueRobot,
  listDueRobots,
  lockPosition,
  type NumberedChunk,
  putPosition,
  putRollups,
  rollupsOfRobot,
} from "./store-rollups.ts";

const EVERY_MS = 30_000;
/** The rollups of a robot are written at most this often, because a write replaces the whole day. An interval takes as long. */
const ROBOT_EVERY_MS = 300_000;
/** Maximum robots of one pass. */
const ROBOTS_MAX = 5_000;
/** Maximum chunks of a robot in one pass: at most 15 MB. */
const CHUNKS_MAX = 256;
/** Maximum series of a robot and day. An app that puts ids into labels could send many more. */
const DAY_SERIES_MAX = 2_000;
/** Maximum duration of one pass, so that rollups take at most a tenth of the time. What remains is left to the next pass. */
const PASS_MS = 3_000;

/**
 * Starts to reduce samples to rollups. A transaction adds a robot's new chunks to its rollups and moves its position, so each sample is
 * counted once, whenever its chunk arrives, and after a crash at any point.
 */
export const startRollups = (plane: Plane): { stop(): Promise<void> } =>
  background(plane, "metric rollups", EVERY_MS, () => rollUpDue(plane));

/** Adds new chunks to the rollups of robots, the longest waiting first, for at most PASS_MS. */
export async function rollUpDue(plane: Plane): Promise<void> {
  const { db, clock, log } = plane;
  const began = clock.monotonic();
  const before = new Date(clock.now().getTime() - ROBOT_EVERY_MS);
  const due = await listDueRobots(db, { before, chunks: CHUNKS_MAX, limit: ROBOTS_MAX });
  const failures = await isolateEach(due, isConnectionLost, async (robot) => {
    if (clock.monotonic() - began < PASS_MS) await rollUp(db.forOrg(robot.org_id), robot, clock.now());
  });
  if (failures !== undefined) log.error({ err: failures.error, robots: failures.failed.length }, "metric rollups could not be computed");
}

const rollUp = (db: Db, { org_id, robot_id }: DueRobot, now: Date): Promise<void> =>
  db.transaction(async (tx) => {
    const position = await lockPosition(tx, org_id, robot_id, now);
    if (position === undefined || position.last_number <= position.number) return;
    const after = position.number;
    const to = Math.min(position.last_number, after + CHUNKS_MAX);
    let chunks = await chunksNumbered(tx, org_id, { robot_id, after, to, from: position.chunk_from });
    // A chunk begins earlier after the robot's clock was set back. A chunk whose samples all exceed a bound has a number, but no row.
    if (chunks.length < to - after) chunks = await chunksNumbered(tx, org_id, { robot_id, after, to, from: null });
    for (const [day, samples] of await samplesByDay(chunks)) {
      const since = new Date(day);
      const stored = await rollupsOfRobot(tx, org_id, robot_id, { since, until: new Date(day + DAY_MS) });
      samples.limitSeries(stored, DAY_SERIES_MAX);
      for (const rollup of stored) samples.addStored(rollup);
      await putRollups(tx, org_id, { robot_id, day: since }, samples.rollups());
    }
    await putPosition(tx, org_id, { robot_id, number: to, chunk_from: chunks.at(-1)?.first_at ?? position.chunk_from, now });
  });

async function samplesByDay(chunks: readonly NumberedChunk[]): Promise<Map<number, DayOfSamples>> {
  const days = new Map<number, DayOfSamples>();
  for (const { chunk } of chunks) {
    for (const series of seriesOf(chunk)) {
      for (const day of new Set(series.times.map(dayOf))) {
        const samples = days.get(day) ?? new DayOfSamples(day);
        days.set(day, samples);
        samples.add(series);
      }
    }
    await yieldToEventLoop();
  }
  return days;
}
