import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { type DailyTable, keepPartitions } from "../../kernel/daily-partitions.ts";
import { isolateFailures } from "../../kernel/isolate-failures.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { enforceQuota } from "./quota.ts";
import { addOrgUsage, addRobotUsage, deleteUsage, periodOf, type RobotUsage, ROW_BYTES } from "./store-usage.ts";

const FLUSH_EVERY_MS = 60_000;
/**
 * After this many flushes of the usage by org, the usage by robot is written too. It is written less often, because it needs a row for each
 * robot that logs.
 */
const ROBOTS_EVERY_FLUSHES = 10;
/** Unwritten usage at which a robot's usage is written with the next flush. */
const ROBOT_BYTES_SOON = 16 * 1024 * 1024;
const ROWS_A_STATEMENT = 2_000;

/** Usage that is not written yet. The key consists of the id of the org or robot and the period. */
type Counted = Map<string, RobotUsage>;

interface Counters {
  orgs: Counted;
  robots: Counted;
}

const countersOf = planeState((_: Plane): Counters => ({ orgs: new Map(), robots: new Map() }));

function add(counted: Counted, key: string, usage: RobotUsage): void {
  const known = counted.get(key);
  if (known === undefined) counted.set(key, { ...usage });
  else known.bytes += usage.bytes;
}

/** Adds a stored batch to the counts in memory, which a flush writes to the database later. */
export function countStored(plane: Plane, org_id: string, robot_id: string, received_at: Date, packed_bytes: number): void {
  const bytes = packed_bytes + ROW_BYTES;
  plane.metrics.log_bytes_stored.inc(bytes);
  const { orgs, robots } = countersOf(plane);
  const usage = { org_id, robot_id, period_at: periodOf(received_at), bytes };
  add(orgs, `${org_id} ${usage.period_at.getTime()}`, usage);
  add(robots, `${robot_id} ${usage.period_at.getTime()}`, usage);
}

/** Starts a job that, each minute, writes the counts and deletes logs of orgs above their limit. */
function startLogUsage(plane: Plane): { stop(): Promise<void> } {
  let flushes = 0;
  const work = background(plane, "log bytes", FLUSH_EVERY_MS, async () => {
    flushes += 1;
    const all = flushes % ROBOTS_EVERY_FLUSHES === 0;
    await flushUsage(plane, ({ bytes }) => all || bytes >= ROBOT_BYTES_SOON);
    await enforceQuota(plane, { flush: () => flushUsage(plane, () => true), check_robots: all });
  });
  return {
    stop: async () => {
      await work.stop();
      await flushUsage(plane, () => true).catch((error: unknown) =>
        plane.log.error({ err: error }, "could not store how many bytes of logs each robot uses"),
      );
    },
  };
}

async function flushUsage(plane: Plane, isDue: (robot: RobotUsage) => boolean): Promise<void> {
  const { orgs, robots } = countersOf(plane);
  await write(
    plane,
    orgs,
    () => true,
    (usage) => addOrgUsage(plane.db, usage),
  );
  await write(plane, robots, isDue, (usage) => addRobotUsage(plane.db, usage));
}

/** Writes the usage for which `isDue` returns true. If a write fails, logs the error and keeps the usage for the next attempt. */
async function write(
  { db_errors, log }: Pick<Plane, "db_errors" | "log">,
  counted: Counted,
  isDue: (usage: RobotUsage) => boolean,
  insert: (usage: readonly RobotUsage[]) => Promise<unknown>,
): Promise<void> {
  const due = [...counted].filter(([, usage]) => isDue(usage));
  for (let from = 0; from < due.length; from += ROWS_A_STATEMENT) {
    const some = due.slice(from, from + ROWS_A_STATEMENT);
    for (const [key] of some) counted.delete(key);
    let kept: readonly [string, RobotUsage][] = some;
    try {
      const failures = await isolateFailures(some, db_errors.isOutage, (part) => insert(part.map(([, usage]) => usage)));
      kept = failures?.failed ?? [];
      if (failures !== undefined)
        log.error({ err: failures.error, robots: kept.length }, "could not store how many bytes of logs each robot uses");
    } finally {
      for (const [key, usage] of kept) add(counted, key, usage);
    }
  }
}

const EVERY_MS = 3_600_000;
const BATCHES: DailyTable = { name: "log_batch", column: "received_at", lock: 7_600_001 };

/**
 * Creates the partitions of the coming days and drops those past the retention time, immediately and then each hour. Each minute, deletes
 * the oldest logs of orgs above their limit.
 */
export async function startLogRetention(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const work = background(plane, "log partitions", EVERY_MS, async () => {
    const { oldest } = await keepPartitions(plane, BATCHES, plane.settings.limits.log_retention_days);
    await deleteUsage(plane.db, oldest);
  });
  // If this fails, the error is logged and the job is retried. Meanwhile, the default partition takes new rows.
  work.wake();
  await work.settled();
  const usage = startLogUsage(plane);
  return { stop: async () => void (await Promise.all([work.stop(), usage.stop()])) };
}
