import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { requireRobot } from "../robots/index.ts";
import { queryStoredOrRemote } from "./remote-read.ts";

const HOUR_MS = 3_600_000;
const SPAN_DAYS_MAX = 31;
const POINTS_DEFAULT = 120;
const NAMES_MAX = 50;

export function metricRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getRobotMetrics, async (_, { db, caller, params, query }) => {
    await requireRobot(db, caller.org_id, params.id);
    const until = parseTime(query.until) ?? plane.clock.now();
    const since = parseTime(query.since) ?? new Date(until.getTime() - HOUR_MS);
    if (since >= until) throw badRequest("since must be before until");
    if (until.getTime() - since.getTime() > SPAN_DAYS_MAX * 24 * HOUR_MS)
      throw badRequest(`since and until are more than ${SPAN_DAYS_MAX} days apart`);
    const names = query.names === undefined ? undefined : new Set(query.names.split(",").filter((name) => name !== ""));
    if (names !== undefined && names.size > NAMES_MAX) throw badRequest(`names has more than ${NAMES_MAX} names`);
    const points = query.points ?? POINTS_DEFAULT;
    const { series, omitted_series } = await queryStoredOrRemote(plane, db, caller.org_id, {
      robot_id: params.id,
      names,
      since,
      until,
      points,
    });
    const step_seconds = (until.getTime() - since.getTime()) / 1_000 / points;
    return { data: { robot_id: params.id, since: wireTime(since), until: wireTime(until), step_seconds, series, omitted_series } };
  });
}
