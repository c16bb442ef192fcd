import type { HealthPoint } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest } from "../../kernel/fault.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { heldPoints } from "./history.ts";
import { pointOf, thin, type TimedPoint, unpack } from "./point.ts";
import type { SnapshotRow } from "./store.ts";
import { selectBatches } from "./store-history.ts";

const HOUR_MS = 3_600_000;
const SPAN_DAYS_MAX = 31;
const POINTS_SHOWN = 300;
/** Longest time span of a batch: the most that a node keeps in memory while the database is unavailable. */
const BATCH_MS_MAX = HOUR_MS + 60_000;

interface HistoryQuery {
  since?: string | undefined;
  until?: string | undefined;
  points?: number | undefined;
}

/**
 * Returns a robot's health between two times. Includes unwritten points of this node and the latest snapshot. Unwritten points
 * of another node, up to ten minutes, are missing.
 */
export async function readHistory(
  plane: Plane,
  db: Db,
  org_id: string,
  robot_id: string,
  { snapshot, received_at }: SnapshotRow,
  query: HistoryQuery,
): Promise<HealthPoint[]> {
  const until = query.until === undefined ? new Date(plane.clock.now().getTime() + 1) : parseTime(query.until);
  const since = query.since === undefined ? new Date(until.getTime() - HOUR_MS) : parseTime(query.since);
  if (since >= until) throw badRequest("since must be before until");
  if (until.getTime() - since.getTime() > SPAN_DAYS_MAX * 24 * HOUR_MS)
    throw badRequest(`since and until are more than ${SPAN_DAYS_MAX} days apart`);
  const batches = await selectBatches(db, org_id, robot_id, { earliest: new Date(since.getTime() - BATCH_MS_MAX), since, until });
  const latest = snapshot === null || received_at === null ? [] : [{ at: received_at, ...pointOf(snapshot) }];
  const points = [
    ...batches.flatMap(({ first_at, points: packed }) => unpack(first_at, packed)),
    ...heldPoints(plane, robot_id),
    ...latest,
  ];
  return thin(inOrder(points, since, until), since, until, query.points ?? POINTS_SHOWN).map(({ at, ...values }) => ({
    at: wireTime(at),
    ...values,
  }));
}

/** Returns the points of the requested time in order, at most one for each second. */
function inOrder(points: readonly TimedPoint[], since: Date, until: Date): TimedPoint[] {
  const sorted = points.filter(({ at }) => at >= since && at < until).toSorted((a, b) => a.at.getTime() - b.at.getTime());
  return sorted.filter(({ at }, i) => i === 0 || at.getTime() - (sorted[i - 1]?.at.getTime() ?? 0) >= 1000);
}
