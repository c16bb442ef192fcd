import type { Plane } from "../../context.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import {
  addOrgUsage,
  addRobotUsage,
  countOrgBytes,
  deleteBatches,
  listLoggingRobots,
  listLopsided,
  listOverfull,
  listRobotBytes,
  oldestBatches,
  periodOf,
  recountOrg,
  recountRobot,
  type RobotBytes,
} from "./store-usage.ts";

/** Logs above a limit are deleted down to this share of the limit, so that the next deletion is not needed soon. */
const KEPT_SHARE = 0.95;
/** Maximum batches that one DELETE removes. */
const BATCHES_MAX = 1_000;
/** First and longest delay before the deletion of an org's logs is retried. The delay doubles with each failure. */
const RETRY_MS = 60_000;
const RETRY_MS_MAX = 3_600_000;

interface Options {
  /** Writes the counts of log bytes that are still in memory. */
  flush: () => Promise<void>;
  /** Whether to check also each robot against its share of the org's limit. */
  check_robots: boolean;
}

interface Failure {
  failures: number;
  /** Monotonic time of the next attempt. */
  again_at: number;
}

const failuresOf = planeState((_: Plane) => new Map<string, Failure>());

/**
 * Deletes logs of orgs above their limit: the oldest records of the robots with the most bytes, until these robots have equally many bytes.
 * So a robot that floods the log loses only its own records. If an org fails, logs the error, retries that org later, and continues with
 * the others.
 */
export async function enforceQuota(plane: Plane, { flush, check_robots }: Options): Promise<void> {
  const { db, settings, clock, log } = plane;
  const { log_bytes_per_org_max: bytes_max, log_robot_share_percent: percent } = settings.limits;
  if (bytes_max === 0) return;
  const robot_max = Math.floor((bytes_max * percent) / 100);
  const orgs = new Set((await listOverfull(db, bytes_max)).map(({ org_id }) => org_id));
  if (check_robots) for (const { org_id } of await listLopsided(db, robot_max)) orgs.add(org_id);
  if (orgs.size === 0) return;
  await flush();
  const known = failuresOf(plane);
  for (const org_id of orgs) {
    const before = known.get(org_id);
    if (before !== undefined && clock.monotonic() < before.again_at) continue;
    try {
      await enforceQuotaOf(plane, org_id, { bytes_max, robot_max });
      known.delete(org_id);
    } catch (error) {
      const failures = (before?.failures ?? 0) + 1;
      known.set(org_id, { failures, again_at: clock.monotonic() + Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** (failures - 1)) });
      log.error({ err: error, org_id, failures }, "could not delete logs of an org above its limit");
    }
  }
}

async function enforceQuotaOf(plane: Plane, org_id: string, limits: { bytes_max: number; robot_max: number }): Promise<void> {
  const db = plane.db.forOrg(org_id);
  let robots = await listRobotBytes(db, org_id);
  if (Math.abs(sumOf(robots) - (await countOrgBytes(db, org_id))) > limits.bytes_max * (1 - KEPT_SHARE)) {
    // The counts are wrong, because an earlier version did not count by robot, or a killed server lost counts. Count again.
    for (const robot_id of await listLoggingRobots(db, org_id)) await recountRobot(db, org_id, robot_id);
    await recountOrg(db, org_id);
    robots = await listRobotBytes(db, org_id);
  }
  for (const { robot_id, bytes } of toDelete(robots, limits)) await deleteOldest(plane, org_id, robot_id, bytes);
}

const sumOf = (robots: readonly RobotBytes[]): number => robots.reduce((sum, { bytes }) => sum + Math.max(0, bytes), 0);

/**
 * Returns the robots above a common level, and how many of their bytes to delete to reach it. The level is the highest one that keeps the
 * org within its limit and each robot within its share. `robots` is sorted by bytes, descending.
 */
export function toDelete(robots: readonly RobotBytes[], { bytes_max, robot_max }: { bytes_max: number; robot_max: number }): RobotBytes[] {
  const level = Math.min(levelOf(robots, bytes_max), robots.some(({ bytes }) => bytes > robot_max) ? robot_max * KEPT_SHARE : Infinity);
  return robots.flatMap(({ robot_id, bytes }) => (bytes > level ? [{ robot_id, bytes: Math.ceil(bytes - level) }] : []));
}

function levelOf(robots: readonly RobotBytes[], bytes_max: number): number {
  const sum = sumOf(robots);
  if (sum <= bytes_max) return Infinity;
  let above = 0;
  for (const [i, { bytes }] of robots.entries()) {
    above += bytes;
    // The first i + 1 robots get equal shares of the bytes that the smaller robots leave.
    const level = (bytes_max * KEPT_SHARE - (sum - above)) / (i + 1);
    if (level >= (robots[i + 1]?.bytes ?? 0)) return level;
  }
  return 0;
}

/** Deletes a robot's oldest batches until at least `bytes` bytes are deleted. */
async function deleteOldest({ db, log, metrics }: Plane, org_id: string, robot_id: string, bytes: number): Promise<void> {
  const of_org = db.forOrg(org_id);
  let deleted = 0;
  let before: Date | undefined;
  while (deleted < bytes) {
    const oldest = await oldestBatches(of_org, org_id, robot_id, BATCHES_MAX);
    let size = 0;
    const some = oldest.slice(0, 1 + oldest.findIndex((batch) => (size += batch.bytes) >= bytes - deleted) || oldest.length);
    const last = some.at(-1);
    if (last === undefined) break;
    const usage = some.map((batch) => ({ org_id, robot_id, period_at: periodOf(batch.received_at), bytes: -batch.bytes }));
    await of_org.transaction(async (tx) => {
      await deleteBatches(tx, org_id, last);
      await addOrgUsage(tx, usage);
      await addRobotUsage(tx, usage);
    });
    const gone = some.reduce((sum, batch) => sum + batch.bytes, 0);
    deleted += gone;
    before = last.received_at;
    metrics.log_bytes_dropped.inc(gone);
  }
  if (before !== undefined)
    log.warn(
      { org_id, robot_id, before: before.toISOString(), bytes: deleted },
      "deleted the oldest logs of a robot: its org is above its limit",
    );
}
