import { type Robot, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { approveRobot } from "./approve.ts";
import { changeRobots } from "./bulk.ts";
import { releaseHold } from "./duplicates.ts";
import { removeRobot } from "./remove.ts";
import { findPlace, findRobot, type RobotPlace } from "./store.ts";
import { findRelease, listRobots, type RobotKey } from "./store-list.ts";
import { changeRobot } from "./update.ts";
import { toWire } from "./wire.ts";

export function robotRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listRobots, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.fleet_id !== undefined) await requireFleet(db, org_id, query.fleet_id);
    if (query.site_id !== undefined) await requireSite(db, org_id, query.site_id);
    const release = query.release_id === undefined ? undefined : await findRelease(db, org_id, query.release_id);
    if (query.release_id !== undefined && release === undefined) throw notFound("release", query.release_id);
    const { label = [], sort = "newest" } = query;
    const filter = { ...query, release, labels: [label].flat().map(readLabel) };
    if (contradict(filter.labels)) return { items: [], next_cursor: null };
    return readPage(
      query,
      [routes.listRobots.name, org_id],
      ({ after, limit }) => listRobots(db, caller, filter, { sort, after: after === null ? null : readKey(after), limit }),
      ({ id, name }) => JSON.stringify(sort === "name" ? { id, name } : { id }),
      toWire,
    );
  });

  serve(http, plane, routes.bulkUpdateRobots, async (_, { body, caller, db }) => ({ items: await changeRobots(plane, db, caller, body) }));

  serve(http, plane, routes.getRobot, async (_, { params, caller, db }) => ({ data: await readRobot(db, caller.org_id, params.id) }));

  serve(http, plane, routes.updateRobot, async (_, { params, body, caller, db }) => {
    await changeRobot(plane, db, caller, params.id, body);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });

  serve(http, plane, routes.releaseHold, async (_, { params, caller, db }) => {
    await releaseHold(plane, db, caller, params.id);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });

  serve(http, plane, routes.approveRobot, async (_, { params, caller, db }) => {
    await approveRobot(plane, db, caller, params.id);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });

  serve(http, plane, routes.deleteRobot, async (_, { params, caller, db }) => {
    await removeRobot(plane, db, caller, params.id);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });
}

/** Parses the cursor's key. Cursors are bound to their list, so a key of another form does not come from this server. */
function readKey(text: string): RobotKey {
  try {
    const { id, name } = JSON.parse(text) as Partial<Record<"id" | "name", unknown>>;
    if (typeof id === "string" && (name === undefined || typeof name === "string")) return name === undefined ? { id } : { id, name };
  } catch {
    // Reported below.
  }
  throw badRequest("cursor is invalid: use next_cursor of the previous page");
}

/** Whether the filter requires two values of one label, which no robot has. */
const contradict = (labels: readonly { key: string; value: string }[]): boolean =>
  labels.some(({ key, value }) => labels.some((other) => other.key === key && other.value !== value));

function readLabel(text: string): { key: string; value: string } {
  const colon = text.indexOf(":");
  return { key: text.slice(0, colon), value: text.slice(colon + 1) };
}

async function readRobot(db: Db, org_id: string, id: string): Promise<Robot> {
  const robot = await findRobot(db, org_id, id);
  if (robot === undefined) throw notFound("robot", id);
  return toWire(robot);
}

/** Returns the robot's place and whether it is online; 404 if the org does not have it. Includes decommissioned robots, for their history. */
export async function requireRobot(db: Db, org_id: string, id: string): Promise<RobotPlace> {
  const robot = await findPlace(db, org_id, id);
  if (robot === undefined) throw notFound("robot", id);
  return robot;
}
