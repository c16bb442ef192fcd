import { type Robot, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { changesBetween } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { approveRobot, changeRobot, changeRobots, releaseQuarantine } from "./change.ts";
import { removeRobot } from "./remove.ts";
import { findRelease, listRobots, type RobotKey } from "./store-list.ts";
import { findPlace, lockRobot, type RobotPlace } from "./store.ts";
import { findRobot } from "./store-shown.ts";
import { selectFields, toWire } from "./wire.ts";

export function robotRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listRobots, async (_, { query: { fields, ...query }, caller, db }) => {
    const { org_id } = caller;
    const { parts, wire } = selectFields(fields);
    if (query.fleet_id !== undefined) await requireFleet(db, org_id, query.fleet_id);
    if (query.site_id !== undefined) await requireSite(db, org_id, query.site_id);
    const { release_id } = query;
    const release = release_id === undefined ? undefined : found(await findRelease(db, org_id, release_id), "release", release_id);
    const { sort = "newest" } = query;
    const labels = readLabels(query.label);
    if (labels === undefined) return { items: [], next_cursor: null };
    const filter = { ...query, release, labels };
    return readPage(
      query,
      [routes.listRobots.name, org_id],
      ({ after, limit }) => listRobots(db, caller, filter, { sort, after: after === null ? null : readKey(after), limit }, parts),
      wire,
      ({ row: { id, name } }) => JSON.stringify(sort === "name" ? { id, name } : { id }),
    );
  });

  serve(http, plane, routes.bulkUpdateRobots, async (_, { body, caller, db }) => ({ items: await changeRobots(plane, db, caller, body) }));

  serve(http, plane, routes.getRobot, async (_, { params, caller, db }) => ({ data: await readRobot(db, caller.org_id, params.id) }));

  serve(http, plane, routes.updateRobot, async (_, { params, body, caller, db, audit }) => {
    found(await lockRobot(db, caller.org_id, params.id), "robot", params.id);
    const before = await readRobot(db, caller.org_id, params.id);
    await changeRobot(plane, db, caller, params.id, body);
    const data = await readRobot(db, caller.org_id, params.id);
    audit.data = changesBetween(before, data, ["name", "labels", "fleet_id"]);
    return { data };
  });

  for (const [route, change] of [
    [routes.releaseHold, releaseQuarantine],
    [routes.approveRobot, approveRobot],
    [routes.deleteRobot, removeRobot],
  ] as const)
    serve(http, plane, route, async (_, { params, caller, db }) => {
      await change(plane, db, caller, params.id);
      return { data: await readRobot(db, caller.org_id, params.id) };
    });
}

/** Parses the key in a cursor. Throws 400 for a malformed key, which this server did not create for this list. */
function readKey(text: string): RobotKey {
  try {
    const { id, name } = JSON.parse(text) as Partial<Record<"id" | "name", unknown>>;
    if (typeof id === "string" && (name === undefined || typeof name === "string")) return name === undefined ? { id } : { id, name };
  } catch {
    // The invalid cursor is reported below.
  }
  throw badRequest("cursor is invalid: use next_cursor of the previous page");
}

interface Label {
  key: string;
  value: string;
}

/** Parses a label of a filter: KEY:VALUE. */
export function readLabel(text: string): Label {
  const colon = text.indexOf(":");
  return { key: text.slice(0, colon), value: text.slice(colon + 1) };
}

/** Reads a filter by labels. Returns undefined if it requires two values of one label: no robot matches it. */
export function readLabels(filter: string | readonly string[] = []): Label[] | undefined {
  const labels = [filter].flat().map(readLabel);
  return labels.some(({ key, value }) => labels.some((other) => other.key === key && other.value !== value)) ? undefined : labels;
}

const readRobot = async (db: Db, org_id: string, id: string): Promise<Robot> => toWire(found(await findRobot(db, org_id, id), "robot", id));

/**
 * Returns the robot's site and fleet, and whether it is online. Throws 404 if the org does not have the robot. Finds decommissioned robots
 * too, because their history can be read.
 */
export const requireRobot = async (db: Db, org_id: string, id: string): Promise<RobotPlace> =>
  found(await findPlace(db, org_id, id), "robot", id);
