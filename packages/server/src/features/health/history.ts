import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { type DailyTable, keepPartitions } from "../../kernel/daily-partitions.ts";
import { type Failures, isolateFailures } from "../../kernel/isolate-failures.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { type Drawn, pack, pointOf, type TimedPoint } from "./point.ts";
import { insertBatches, type NewBatch } from "./store.ts";

/** A robot's history has at most one point for each interval of this length. */
const POINT_EVERY_MS = 60_000;
/** A robot's points are written in one batch when the oldest has this age. If the server is killed, points not yet written are lost. */
const FLUSH_AFTER_MS = 600_000;
const FLUSH_EVERY_MS = 60_000;
/** Maximum points of a robot in memory. During a database outage, the oldest points beyond this number are dropped. */
const UNWRITTEN_POINTS_MAX = 60;
const BATCHES_PER_STATEMENT = 1_000;
const PARTITIONS_EVERY_MS = 3_600_000;
const HISTORY: DailyTable = { name: "health_history", column: "first_at", lock: 7_600_002 };

interface UnwrittenPoints {
  org_id: string;
  points: TimedPoint[];
}

/** The points of robots that this node has not written yet, by robot id. */
const unwrittenOf = planeState((_: Plane) => new Map<string, UnwrittenPoints>());

/** Keeps the first snapshot of each minute in memory as a point of the robot's history. Does not use the database. */
export function addPoint(plane: Plane, org_id: string, robot_id: string, snapshot: Drawn, at: Date): void {
  const robots = unwrittenOf(plane);
  const robot = robots.get(robot_id) ?? { org_id, points: [] };
  const before = robot.points.at(-1);
  if (before !== undefined && minuteOf(before.at) === minuteOf(at)) return;
  robot.points.push({ at, ...pointOf(snapshot) });
  if (robot.points.length > UNWRITTEN_POINTS_MAX) robot.points.shift();
  robots.set(robot_id, robot);
}

const minuteOf = (at: Date): number => Math.floor(at.getTime() / POINT_EVERY_MS);

/** Returns the points of a robot that this node has not written yet. */
export const unwrittenPoints = (plane: Plane, robot_id: string): readonly TimedPoint[] => unwrittenOf(plane).get(robot_id)?.points ?? [];

/** Starts the jobs that write points and that create and drop partitions of the table. `stop` writes the remaining points. */
export async function startHealthHistory(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const partitions = background(
    plane,
    "health partitions",
    PARTITIONS_EVERY_MS,
    async () => void (await keepPartitions(plane, HISTORY, plane.settings.limits.health_retention_days)),
  );
  partitions.wake();
  await partitions.settled();
  const flushing = background(plane, "health history", FLUSH_EVERY_MS, () =>
    flush(plane, new Date(plane.clock.now().getTime() - FLUSH_AFTER_MS)),
  );
  return {
    stop: async () => {
      await Promise.all([partitions.stop(), flushing.stop()]);
      await flush(plane, plane.clock.now()).catch((error: unknown) =>
        plane.log.error({ err: error }, "could not store the health of the last minutes"),
      );
    },
  };
}

/** Writes all unwritten points of each robot whose oldest unwritten point is from `before` or earlier. */
export async function flush(plane: Plane, before: Date): Promise<void> {
  const robots = unwrittenOf(plane);
  let failures: Failures<unknown> | undefined;
  const due = [...robots].filter(([, { points }]) => points[0] !== undefined && points[0].at <= before);
  for (let from = 0; from < due.length; from += BATCHES_PER_STATEMENT) {
    const some = due.slice(from, from + BATCHES_PER_STATEMENT).map(([robot_id, { org_id, points }]) => batchOf(org_id, robot_id, points));
    const written = await isolateFailures(some, plane.db_errors.isOutage, (batches) => insertBatches(plane.db, batches));
    failures = written ?? failures;
    const failed = new Set(written?.failed);
    for (const { robot_id, last } of some.filter((batch) => !failed.has(batch))) {
      const robot = robots.get(robot_id);
      // During the write, `addPoint` may have dropped points of the batch, even the last one. Then all points in memory are unwritten.
      robot?.points.splice(0, robot.points.indexOf(last) + 1);
      if (robot?.points.length === 0) robots.delete(robot_id);
    }
  }
  if (failures !== undefined) throw failures.error;
}

function batchOf(org_id: string, robot_id: string, points: readonly TimedPoint[]): NewBatch & { last: TimedPoint } {
  const [first, last] = [points[0], points.at(-1)] as [TimedPoint, TimedPoint];
  return { org_id, robot_id, first_at: first.at, last_at: last.at, points: pack(points), last };
}
