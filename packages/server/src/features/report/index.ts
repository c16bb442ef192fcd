import { type Report, REPORT_DAYS_MAX, REPORT_HOURS, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, mayInWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { readChanges } from "./store-changes.ts";
import { readDeployments } from "./store-deployments.ts";
import { readIncidents } from "./store-incidents.ts";
import { readRobotEvents, readRobotStates } from "./store-robots.ts";

const HOUR_MS = 3_600_000;
/** Tolerated difference between the clocks of a client and the server, so that a client may ask for exactly `REPORT_DAYS_MAX`. */
const SKEW_MS_MAX = HOUR_MS;

export function reportRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getReport, async ({ clock }, { caller, query, db }) => {
    const until = clock.now();
    const since = parseTime(query.since) ?? new Date(until.getTime() - REPORT_HOURS * HOUR_MS);
    if (until.getTime() - since.getTime() > REPORT_DAYS_MAX * 24 * HOUR_MS + SKEW_MS_MAX)
      throw badRequest(`since is more than ${REPORT_DAYS_MAX} days ago: a report covers at most ${REPORT_DAYS_MAX} days`);
    return { data: await readReport(db, caller, since, until) };
  });
}

/** Reads a report with five statements, and one more for the names in selections, one after the other, so that a report uses one connection at a time. */
async function readReport(db: Db, caller: Caller, since: Date, until: Date): Promise<Report> {
  const deployments = await readDeployments(db, caller, since);
  const incidents = await readIncidents(db, caller, since);
  const changes = await readChanges(db, caller, since);
  return {
    since: wireTime(since),
    until: wireTime(until),
    changed: {
      started_deployments: deployments.started,
      finished_deployments: deployments.finished,
      releases: changes.releases,
      configs: changes.configs,
      people: mayInWholeOrg(caller, "admin") ? changes.people : null,
    },
    broken: { incidents: incidents.raised, deployments: deployments.failed, robots: await readRobotEvents(db, caller, since) },
    open: { incidents: incidents.open, deployments: deployments.open, robots: await readRobotStates(db, caller) },
  };
}
