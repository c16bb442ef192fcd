import { ID_PREFIXES } from "@roamfleet/protocol";
import { type Fleet, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mapUniqueViolation } from "../../engines/db/index.ts";
import { changesBetween } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, found, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { requireSite } from "../sites/index.ts";
import {
  deleteFleet,
  findFleet,
  type FleetPlace,
  type FleetRow,
  hasRobots,
  insertFleet,
  listFleets,
  lockFleet,
  type NewFleet,
  shareFleet,
  updateFleet,
} from "./store.ts";

export function fleetRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listFleets, async (_, { query, caller, db }) => {
    if (query.site_id !== undefined) await requireSite(db, caller.org_id, query.site_id);
    return readPage(query, [routes.listFleets.name, caller.org_id], (window) => listFleets(db, caller, query, window), toWire);
  });

  serve(http, plane, routes.createFleet, async (_, { body, caller, db }) => {
    const { name, site_id, follow = true } = body;
    const fleet = { org_id: caller.org_id, id: plane.id(ID_PREFIXES.fleet), site_id, name, follow, at: plane.clock.now() };
    return created(routes.createFleet.path, { data: await create(plane, db, fleet) });
  });

  serve(http, plane, routes.getFleet, async (_, { params, caller, db }) => ({ data: await readFleet(db, caller.org_id, params.id) }));

  serve(http, plane, routes.updateFleet, async (_, { params, body, caller, db, audit }) => {
    found(await lockFleet(db, caller.org_id, params.id), "fleet", params.id);
    const before = await readFleet(db, caller.org_id, params.id);
    if (body.name !== undefined || body.follow !== undefined) {
      const changed = await orNameConflict(body.name ?? "", updateFleet(db, caller.org_id, params.id, body, plane.clock.now()));
      if (changed > 0) announce(db, plane, caller.org_id, { kind: "fleet", id: params.id, change: "updated" });
    }
    const data = await readFleet(db, caller.org_id, params.id);
    audit.data = changesBetween(before, data, ["name", "follow"]);
    return { data };
  });

  serve(http, plane, routes.deleteFleet, async (_, { params, caller, db }) => ({
    data: await remove(plane, db, caller.org_id, params.id),
  }));
}

async function create(plane: Plane, db: Db, fleet: NewFleet): Promise<Fleet> {
  const { org_id, id, site_id, name } = fleet;
  return await db.transaction(async (tx) => {
    await requireSite(tx, org_id, site_id);
    const made = await orNameConflict(name, insertFleet(tx, fleet));
    announce(tx, plane, org_id, { kind: "fleet", id, change: "created", site_id });
    return toWire(made);
  });
}

const readFleet = async (db: Db, org_id: string, id: string): Promise<Fleet> => toWire(found(await findFleet(db, org_id, id), "fleet", id));

/**
 * Deletes a fleet and its enrollment keys. Returns the deleted fleet. Throws 409 while the fleet has robots that are not decommissioned.
 */
async function remove(plane: Plane, db: Db, org_id: string, id: string): Promise<Fleet> {
  return await db.transaction(async (tx) => {
    found(await lockFleet(tx, org_id, id), "fleet", id);
    const fleet = await readFleet(tx, org_id, id);
    if (await hasRobots(tx, org_id, id)) throw conflict(`fleet ${id} still has robots; move or delete them first`);
    await deleteFleet(tx, org_id, id);
    const { site_id } = fleet;
    announce(tx, plane, org_id, { kind: "fleet", id, change: "removed", site_id, places: [{ site_id, fleet_id: id }] });
    return fleet;
  });
}

const orNameConflict = <T>(name: string, write: Promise<T>): Promise<T> =>
  mapUniqueViolation(write, () => conflict(`a fleet with the name ${printable(name)} exists already at this site`));

/** Returns the id, site and name of a fleet, or throws 404. Inside a transaction, locks the fleet against deletion. */
export const requireFleet = async (db: Db, org_id: string, id: string): Promise<FleetPlace> =>
  found(await shareFleet(db, org_id, id), "fleet", id);

const toWire = (fleet: FleetRow): Fleet => ({
  id: fleet.id,
  name: fleet.name,
  site_id: fleet.site_id,
  robot_count: fleet.robot_count,
  online_count: fleet.online_count,
  desired: Object.fromEntries(Object.entries(fleet.desired).map(([app, { id, tag }]) => [app, { id, tag }])),
  config_revision: fleet.config_revision,
  follow: fleet.follow,
  created_at: wireTime(fleet.created_at),
  updated_at: wireTime(fleet.updated_at),
});

export {
  findFleetWith,
  type FleetPlace,
  listFleetsToFollow,
  lockFleetDesired,
  moveFollowCursor,
  setFleetConfig,
  setFleetDesired,
  shareFleet,
} from "./store.ts";
