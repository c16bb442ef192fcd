import { type Overview, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, seesWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { SharedReads } from "./share.ts";
import { countDeployments, countRobots, countRobotsWith, listUnhealthy } from "./store.ts";

/** Most unhealthy robots in the overview; the list of robots has all. */
const UNHEALTHY_SHOWN = 10;
/** A failed deployment is counted for this long after its creation. */
const FAILED_DAYS = 7;

export function overviewRoutes(http: Http, plane: Plane): void {
  const shared = new SharedReads<Overview>();
  serve(http, plane, routes.getOverview, async (_, { db, caller }) => {
    const failed_since = new Date(plane.clock.now().getTime() - FAILED_DAYS * 86_400_000);
    const read = (): Promise<Overview> => readOverview(db, caller, failed_since);
    return { data: seesWholeOrg(caller) ? await shared.read(caller.org_id, read) : await read() };
  });
}

async function readOverview(db: Db, caller: Caller, failed_since: Date): Promise<Overview> {
  const [robots, states, { config_in_progress, ...deployments }] = await Promise.all([
    countRobots(db, caller),
    countRobotsWith(db, caller),
    countDeployments(db, caller, failed_since),
  ]);
  return {
    robots: { ...robots, offline: robots.total - robots.online - robots.never_connected, ...states },
    deployments: { ...deployments, failed_since: wireTime(failed_since) },
    config_deployments: { in_progress: config_in_progress },
    unhealthy_robots: states.unhealthy === 0 ? [] : await listUnhealthy(db, caller, UNHEALTHY_SHOWN),
  };
}
