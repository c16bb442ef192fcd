import { type Overview, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, seesWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import { readFleets } from "./fleets.ts";
import { countDeployments, countRobots, countRobotsWith, listUnhealthy } from "./store.ts";

/** Maximum unhealthy robots in the overview. The list of robots shows all of them. */
const UNHEALTHY_SHOWN = 10;
/** A failed deployment is counted for this long after its creation. */
const FAILED_DAYS = 7;
/** An offline robot that was last seen within this time counts as lost. */
const LOST_MS = 3_600_000;
const CALLERS_MAX = 10_000;
/** Maximum concurrent reads of overviews, each of a different org. */
const READS_AT_ONCE = 8;

export function overviewRoutes(http: Http, plane: Plane): void {
  const overview = sharedReads((caller) => readOverview(plane, caller));
  serve(http, plane, routes.getOverview, async (_, { caller }) => ({ data: await overview(caller) }));
  const fleets = sharedReads((caller) => readFleets(plane, caller));
  serve(http, plane, routes.getFleetOverview, async (_, { caller, query, db }) => {
    const { site_id, fleet_id } = query;
    if (site_id === undefined && fleet_id === undefined) return { data: await fleets(caller) };
    await requirePlace(plane, db, caller.org_id, "site", site_id);
    await requirePlace(plane, db, caller.org_id, "fleet", fleet_id);
    return { data: await readFleets(plane, caller, query) };
  });
}

/** Throws 404 if the org has no such object. */
async function requirePlace({ findPlaces }: Plane, db: Db, org_id: string, kind: "site" | "fleet", id: string | undefined): Promise<void> {
  if (id !== undefined) found((await findPlaces(db, org_id, kind, [id], [])).get(id), kind, id);
}

/**
 * Returns a function that reads something about an org. Callers that see the whole org and arrive during a read of it share the next read.
 * So the load on the database does not depend on the number of callers.
 */
function sharedReads<T>(read: (caller: Caller) => Promise<T>): (caller: Caller) => Promise<T> {
  const shared = new KeyedBatcher<Caller, T>({
    items_max: CALLERS_MAX,
    concurrency_max: READS_AT_ONCE,
    work: async (_, callers) => {
      const result = await read(callers[0] as Caller);
      return callers.map(() => result);
    },
  });
  return (caller) => (seesWholeOrg(caller) ? shared.add(caller.org_id, caller) : read(caller));
}

async function readOverview(plane: Plane, caller: Caller): Promise<Overview> {
  const db = plane.db.forOrg(caller.org_id);
  const failed_since = new Date(plane.clock.now().getTime() - FAILED_DAYS * 86_400_000);
  const [robots, states, { config_in_progress, config_paused, config_waiting_gate, ...deployments }] = await Promise.all([
    countRobots(db, caller, new Date(plane.clock.now().getTime() - LOST_MS)),
    countRobotsWith(db, caller),
    countDeployments(db, caller, failed_since),
  ]);
  return {
    robots: {
      ...robots,
      last_lost_at: wireTime(robots.last_lost_at),
      offline: robots.total - robots.online - robots.never_connected,
      ...states,
    },
    deployments: { ...deployments, failed_since: wireTime(failed_since) },
    config_deployments: { in_progress: config_in_progress, paused: config_paused, waiting_gate: config_waiting_gate },
    unhealthy_robots: states.unhealthy === 0 ? [] : await listUnhealthy(db, caller, UNHEALTHY_SHOWN),
  };
}
