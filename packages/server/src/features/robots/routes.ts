import { type Robot, routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { releaseHold } from "./duplicates.ts";
import { removeRobot } from "./remove.ts";
import { findPlace, findRobot, listRobots, type RobotPlace } from "./store.ts";
import { changeRobot } from "./update.ts";
import { toWire } from "./wire.ts";

export function robotRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listRobots, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.fleet_id !== undefined) await requireFleet(db, org_id, query.fleet_id);
    if (query.site_id !== undefined) await requireSite(db, org_id, query.site_id);
    const filter = { ...query, label: query.label === undefined ? undefined : readLabel(query.label) };
    return readPage(
      query,
      [routes.listRobots.name, org_id],
      (window) => listRobots(db, caller, filter, window),
      ({ id }) => id,
      toWire,
    );
  });

  serve(http, plane, routes.getRobot, async (_, { params, caller, db }) => ({ data: await readRobot(db, caller.org_id, params.id) }));

  serve(http, plane, routes.updateRobot, async (_, { params, body, caller, db }) => {
    await changeRobot(plane, db, caller, params.id, body);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });

  serve(http, plane, routes.releaseHold, async (_, { params, caller, db }) => {
    await releaseHold(plane, db, caller, params.id);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });

  serve(http, plane, routes.deleteRobot, async (_, { params, caller, db }) => {
    await removeRobot(plane, db, caller, params.id);
    return { data: await readRobot(db, caller.org_id, params.id) };
  });
}

function readLabel(text: string): { key: string; value: string } {
  const colon = text.indexOf(":");
  return { key: text.slice(0, colon), value: text.slice(colon + 1) };
}

async function readRobot(db: Db, org_id: string, id: string): Promise<Robot> {
  const robot = await findRobot(db, org_id, id);
  if (robot === undefined) throw notFound("robot", id);
  return toWire(robot);
}

/** Where the robot is and whether it is online; 404 unless the org has it. A decommissioned one still has its history. */
export async function requireRobot(db: Db, org_id: string, id: string): Promise<RobotPlace> {
  const robot = await findPlace(db, org_id, id);
  if (robot === undefined) throw notFound("robot", id);
  return robot;
}
