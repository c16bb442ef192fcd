import { type HealthPoint, type QueryOf, type Routes, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, Fault, found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { parseTime, wireTime, wireTimes } from "../../kernel/time.ts";
import { unwrittenPoints } from "./history.ts";
import { pointOf, thin, type TimedPoint, unpack } from "./point.ts";
import { findSnapshot, selectBatches, type SnapshotRow } from "./store.ts";

export function healthRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getRobotHealth, async (_, { db, caller, params }) => {
    const { snapshot, received_at } = found(await findSnapshot(db, caller.org_id, params.id), "robot", params.id);
    if (snapshot === null || received_at === null)
      throw new Fault("not_found", `health snapshot of robot ${params.id} does not exist: the robot has not sent one yet`);
    return { data: { robot_id: params.id, received_at: wireTime(received_at), ...snapshot } };
  });

  serve(http, plane, routes.getRobotHealthHistory, async (_, { db, caller, params, query }) => {
    const latest = found(await findSnapshot(db, caller.org_id, params.id), "robot", params.id);
    return { items: await readHistory(plane, db, { org_id: caller.org_id, robot_id: params.id, latest }, query) };
  });
}

const HOUR_MS = 3_600_000;
const SPAN_DAYS_MAX = 31;
const POINTS_SHOWN = 300;
/** Maximum time between the first and last point of a batch. During a database outage, a node keeps at most this much history in memory. */
const BATCH_MS_MAX = HOUR_MS + 60_000;

/**
 * Returns a robot's health history between two times. Includes the latest snapshot, and points that this node has not written yet. Points
 * that another node has not written yet are missing, usually those of the last ten minutes.
 */
async function readHistory(
  plane: Plane,
  db: Db,
  { org_id, robot_id, latest: { snapshot, received_at } }: { org_id: string; robot_id: string; latest: SnapshotRow },
  query: QueryOf<Routes["getRobotHealthHistory"]>,
): Promise<HealthPoint[]> {
  const until = parseTime(query.until) ?? new Date(plane.clock.now().getTime() + 1);
  const since = parseTime(query.since) ?? new Date(until.getTime() - HOUR_MS);
  if (since >= until) throw badRequest("since must be before until");
  if (until.getTime() - since.getTime() > SPAN_DAYS_MAX * 24 * HOUR_MS)
    throw badRequest(`since and until are more than ${SPAN_DAYS_MAX} days apart`);
  const batches = await selectBatches(db, org_id, robot_id, { earliest: new Date(since.getTime() - BATCH_MS_MAX), since, until });
  const latest = snapshot === null || received_at === null ? [] : [{ at: received_at, ...pointOf(snapshot) }];
  const points = [
    ...batches.flatMap(({ first_at, points: packed }) => unpack(first_at, packed)),
    ...unwrittenPoints(plane, robot_id),
    ...latest,
  ];
  return thin(inOrder(points, since, until), since, until, query.points ?? POINTS_SHOWN).map(wireTimes);
}

/** Returns the points of the requested period, sorted by time. Keeps at most one point for each second. */
function inOrder(points: readonly TimedPoint[], since: Date, until: Date): TimedPoint[] {
  const sorted = points.filter(({ at }) => at >= since && at < until).toSorted((a, b) => a.at.getTime() - b.at.getTime());
  return sorted.filter(({ at }, i) => i === 0 || at.getTime() - (sorted[i - 1]?.at.getTime() ?? 0) >= 1000);
}
