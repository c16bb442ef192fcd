import { METRIC_NAMES_MAX } from "@roamfleet/protocol/metric-values";
import { METRIC_GROUPS_MAX, METRIC_ROBOTS_MAX, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { limitRunning } from "../../kernel/limit-running.ts";
import { serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { requireFleet } from "../fleets/index.ts";
import { readLabels, requireRobot } from "../robots/index.ts";
import { requireSite } from "../sites/index.ts";
import { groupSeries } from "./group.ts";
import { type MetricPeriod, readMetric } from "./read.ts";
import { DAY_MS } from "./rollup.ts";
import { listNames, listScope } from "./store-rollups.ts";
import { queryStoredOrRemote } from "./remote-read.ts";

const HOUR_MS = 3_600_000;
const SPAN_DAYS_MAX = 92;
const POINTS_DEFAULT = 120;
/** Maximum product of robots and days of one query, which bounds its rows. */
const ROBOT_DAYS_MAX = 100_000;
/** Maximum product of robots and points of one query, which bounds its memory. More robots get fewer points, but at least POINTS_MIN. */
const ROBOT_POINTS_MAX = 500_000;
const POINTS_MIN = 24;
/** Concurrent queries of many robots of one org on one server. */
const limitQueries = limitRunning("metric queries", 8);
/** Names that no robot has sent for this time are not listed. */
const NAMES_SINCE_MS = 2 * DAY_MS;
const NAMES_SHOWN_MAX = 1_000;

interface PeriodQuery {
  since?: string;
  until?: string;
  points?: number;
}

/** Returns the maximum number of points of a query. Throws 400 if it would read too many rows. */
function pointsMax(robots: number, { since, until }: MetricPeriod): number {
  if (robots > METRIC_ROBOTS_MAX) throw badRequest(`more than ${METRIC_ROBOTS_MAX} robots match: choose a site, a fleet or a label`);
  const days = Math.ceil((until.getTime() - since.getTime()) / DAY_MS);
  if (robots * days > ROBOT_DAYS_MAX)
    throw badRequest(`${robots} robots and ${days} days are too much for one query: choose fewer robots or a shorter period`);
  return Math.max(POINTS_MIN, Math.floor(ROBOT_POINTS_MAX / Math.max(1, robots)));
}

export function metricRoutes(http: Http, plane: Plane): void {
  const { clock, settings } = plane;

  function readPeriod(query: PeriodQuery): MetricPeriod & { raw_since: Date } {
    const until = parseTime(query.until) ?? clock.now();
    const since = parseTime(query.since) ?? new Date(until.getTime() - HOUR_MS);
    if (since >= until) throw badRequest("since must be before until");
    if (until.getTime() - since.getTime() > SPAN_DAYS_MAX * DAY_MS)
      throw badRequest(`since and until are more than ${SPAN_DAYS_MAX} days apart`);
    const raw_since = new Date(clock.now().getTime() - settings.limits.metric_raw_retention_days * DAY_MS);
    return { since, until, points: query.points ?? POINTS_DEFAULT, raw_since };
  }
  const shownPeriod = ({ since, until }: MetricPeriod, points: number) => ({
    since: wireTime(since),
    until: wireTime(until),
    step_seconds: (until.getTime() - since.getTime()) / 1_000 / points,
  });

  serve(http, plane, routes.getRobotMetrics, async (_, { db, caller, params, query }) => {
    await requireRobot(db, caller.org_id, params.id);
    const period = readPeriod(query);
    const names = query.names === undefined ? undefined : new Set(query.names.split(",").filter((name) => name !== ""));
    if (names !== undefined && names.size > METRIC_NAMES_MAX) throw badRequest(`names has more than ${METRIC_NAMES_MAX} names`);
    const { series, points, omitted_series } = await queryStoredOrRemote(plane, db, caller.org_id, {
      ...period,
      robot_id: params.id,
      names,
    });
    return { data: { robot_id: params.id, ...shownPeriod(period, points), series, omitted_series } };
  });

  serve(http, plane, routes.listMetrics, async (_, { db, caller }) => {
    const names = await listNames(db, caller, new Date(clock.now().getTime() - NAMES_SINCE_MS), NAMES_SHOWN_MAX + 1);
    return { data: { names: names.slice(0, NAMES_SHOWN_MAX), truncated: names.length > NAMES_SHOWN_MAX } };
  });

  serve(http, plane, routes.queryMetrics, async (_, { db, caller, query }) => {
    const { org_id } = caller;
    const { name, site_id, fleet_id, group_by, aggregation = "avg" } = query;
    const period = readPeriod(query);
    if (site_id !== undefined) await requireSite(db, org_id, site_id);
    if (fleet_id !== undefined) await requireFleet(db, org_id, fleet_id);
    const robot_ids = [query.robot_id ?? []].flat();
    for (const robot_id of robot_ids) await requireRobot(db, org_id, robot_id);
    const labels = readLabels(query.label);
    const robots =
      labels === undefined ? [] : await listScope(db, caller, { site_id, fleet_id, robots: robot_ids, labels }, METRIC_ROBOTS_MAX + 1);
    const points_max = pointsMax(robots.length, period);
    const wanted = { ...period, name, aggregation, robots: robots.map(({ id }) => id), points: Math.min(period.points, points_max) };
    const { series, points, counter } = await limitQueries(plane, org_id, () => readMetric(db, org_id, wanted));
    const shown = shownPeriod(period, points);
    const groups = groupSeries(series, new Map(robots.map((robot) => [robot.id, robot])), {
      group_by,
      aggregation,
      counter,
      step_seconds: shown.step_seconds,
    });
    return {
      data: {
        name,
        aggregation,
        counter,
        ...shown,
        groups: groups.slice(0, METRIC_GROUPS_MAX),
        omitted_groups: Math.max(0, groups.length - METRIC_GROUPS_MAX),
      },
    };
  });
}
