import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import type { Db } from "../../kernel/db.ts";
import { isolateEach } from "../../kernel/isolate-failures.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { measureRollups } from "../../kernel/metrics.ts";
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
/** Maximum duration of one pass, so that rollups take at most a tenth of the time while no robot waits for the next pass. */
const PASS_MS = 3_000;

interface WaitingRobot {
  /** When this node first saw that the robot waits, by the monotonic clock. */
  since_ms: number;
  /** Whether its rollups could not be written since then. */
  has_failed: boolean;
}
interface Waiting {
  robots: Map<string, WaitingRobot>;
  /** When the due robots were last listed, by the monotonic clock. */
  listed_ms: number;
}
const waitingOf = planeState(({ clock, metrics }: Plane): Waiting => {
  const waiting: Waiting = { robots: new Map(), listed_ms: clock.monotonic() };
  measureRollups(metrics, () => {
    const now_ms = clock.monotonic();
    // While passes fail, it is not known who waits: the lag then begins with the first pass that is missing.
    return now_ms - Math.min(now_ms, waiting.listed_ms + EVERY_MS, ...Array.from(waiting.robots.values(), ({ since_ms }) => since_ms));
  });
  return waiting;
});

/**
 * Starts to reduce samples to rollups. One transaction adds a robot's new chunks to its rollups and moves its position. So each sample is
 * counted exactly once, even if its chunk arrives late or the server crashes. If a pass leaves robots waiting, the next pass starts after a
 * pause of the same duration, so rollups take at most half of the time.
 */
export function startRollups(plane: Plane): { stop(): Promise<void> } {
  const { clock } = plane;
  const stopping = new AbortController();
  // Registers the metric of the lag before the first pass.
  waitingOf(plane);
  const work = background(plane, "metric rollups", EVERY_MS, async () => {
    const began = clock.monotonic();
    const is_behind = await rollUpDue(plane);
    if (is_behind) await clock.sleep(clock.monotonic() - began, stopping.signal);
    return is_behind;
  });
  return {
    stop: () => {
      stopping.abort();
      return work.stop();
    },
  };
}

/**
 * Adds new chunks to the rollups of robots, the longest waiting first, for at most PASS_MS. Robots that failed before are last, so that they
 * do not delay the others. Returns whether others wait for their turn.
 */
export async function rollUpDue(plane: Plane): Promise<boolean> {
  const { db, clock, log } = plane;
  const waiting = waitingOf(plane);
  const began = clock.monotonic();
  const before = new Date(clock.now().getTime() - ROBOT_EVERY_MS);
  const due = await listDueRobots(db, { before, chunks: CHUNKS_MAX, limit: ROBOTS_MAX });
  const turns = due.map((robot) => ({ robot, waits: waiting.robots.get(robot.robot_id) ?? { since_ms: began, has_failed: false } }));
  waiting.listed_ms = began;
  waiting.robots = new Map(turns.map(({ robot, waits }) => [robot.robot_id, waits]));
  const in_turn = turns.toSorted((a, b) => Number(a.waits.has_failed) - Number(b.waits.has_failed));
  let is_behind = due.length === ROBOTS_MAX;
  const failures = await isolateEach(in_turn, isConnectionLost, async ({ robot, waits }) => {
    if (clock.monotonic() - began >= PASS_MS) {
      is_behind ||= !waits.has_failed;
      return;
    }
    const has_recovered = waits.has_failed;
    // Before the work: a lost connection ends the pass, and may have been lost because of this robot.
    waits.has_failed = true;
    const is_left = await rollUp(db.forOrg(robot.org_id), robot, clock.now());
    waits.has_failed = false;
    if (!is_left) waiting.robots.delete(robot.robot_id);
    // If one robot has recovered, the others probably have, too.
    if (has_recovered) for (const others of waiting.robots.values()) others.has_failed = false;
    is_behind ||= is_left || has_recovered;
  });
  if (failures !== undefined) log.error({ err: failures.error, robots: failures.failed.length }, "metric rollups could not be computed");
  return is_behind;
}

/** Adds up to CHUNKS_MAX chunks of a robot to its rollups. Returns whether as many are left, so that the robot waits for another turn. */
const rollUp = (db: Db, { org_id, robot_id }: DueRobot, now: Date): Promise<boolean> =>
  db.transaction(async (tx) => {
    const position = await lockPosition(tx, org_id, robot_id, now);
    if (position === undefined || position.last_number <= position.number) return false;
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
    return position.last_number - to >= CHUNKS_MAX;
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
