import type { Series } from "@roamfleet/protocol/link";
import { type RobotPosition, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireRobot } from "../robots/index.ts";
import { requireSite } from "../sites/index.ts";
import { positionIn } from "./position.ts";
import { listPositions, type PositionRow, putPositions } from "./store.ts";

export function positionRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listPositions, async (_, { query, caller, db }) => {
    if (query.fleet_id !== undefined) await requireFleet(db, caller.org_id, query.fleet_id);
    if (query.site_id !== undefined) await requireSite(db, caller.org_id, query.site_id);
    if (query.robot_id !== undefined) await requireRobot(db, caller.org_id, query.robot_id);
    return readPage(query, [routes.listPositions.name, caller.org_id], (window) => listPositions(db, caller, query, window), toWire);
  });
}

function toWire({ at, latitude_degrees, longitude_degrees, x_meters, y_meters, heading_degrees, ...robot }: PositionRow): RobotPosition {
  const position = at === null ? null : { at, latitude_degrees, longitude_degrees, x_meters, y_meters, heading_degrees };
  return { ...robot, position };
}

/** Stores the newest positions in the samples of distinct robots. Does nothing if there is none. */
export async function storePositions(
  db: Db,
  org_id: string,
  samples: readonly { robot_id: string; series: readonly Series[] }[],
): Promise<void> {
  const positions = samples.flatMap(({ robot_id, series }) => {
    const position = positionIn(series);
    return position === undefined ? [] : [{ robot_id, ...position }];
  });
  if (positions.length > 0) await putPositions(db, org_id, positions);
}
