import { ID_PREFIXES } from "@roamfleet/protocol";
import { routes, type Site } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mapUniqueViolation } from "../../engines/db/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import { changesBetween } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, found, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { wireTimes } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { floorPlanRoutes } from "./floor-plan.ts";
import { deleteSite, findSite, hasFleets, insertSite, listSites, lockSite, renameSite, shareSite } from "./store.ts";

export function siteRoutes(http: Http, plane: Plane): void {
  floorPlanRoutes(http, plane);
  serve(http, plane, routes.listSites, (_, { query, caller, db }) =>
    readPage(query, [routes.listSites.name, caller.org_id], (window) => listSites(db, caller, query.q, window), wireTimes),
  );

  serve(http, plane, routes.createSite, async (_, { body, caller, db }) => {
    const site = { org_id: caller.org_id, id: plane.id(ID_PREFIXES.site), name: body.name, at: plane.clock.now() };
    const made = await insertSite(db, site, () => nameConflict(body.name));
    announce(db, plane, caller.org_id, { kind: "site", id: site.id, change: "created" });
    return created(routes.createSite.path, { data: wireTimes(made) });
  });

  serve(http, plane, routes.getSite, async (_, { params, caller, db }) => ({ data: await readSite(db, caller, params.id) }));

  serve(http, plane, routes.updateSite, async (_, { params, body, caller, db, audit }) => {
    const { name } = body;
    found(await lockSite(db, caller.org_id, params.id), "site", params.id);
    const before = await readSite(db, caller, params.id);
    if (name !== undefined) {
      const renamed = await mapUniqueViolation(renameSite(db, caller.org_id, params.id, name, plane.clock.now()), () => nameConflict(name));
      if (renamed > 0) announce(db, plane, caller.org_id, { kind: "site", id: params.id, change: "updated" });
    }
    const data = await readSite(db, caller, params.id);
    audit.data = changesBetween(before, data, ["name"]);
    return { data };
  });

  serve(http, plane, routes.deleteSite, async (_, { params, caller, db }) => ({ data: await remove(plane, db, caller, params.id) }));
}

const readSite = async (db: Db, caller: Caller, id: string): Promise<Site> => wireTimes(found(await findSite(db, caller, id), "site", id));

/** Deletes a site and returns it. Throws 409 if the site still has a fleet. */
async function remove(plane: Plane, db: Db, caller: Caller, id: string): Promise<Site> {
  const { org_id } = caller;
  return await db.transaction(async (tx) => {
    found(await lockSite(tx, org_id, id), "site", id);
    const site = await readSite(tx, caller, id);
    if (await hasFleets(tx, org_id, id)) throw conflict(`site ${id} still has fleets; delete or move them first`);
    await deleteSite(tx, org_id, id);
    announce(tx, plane, org_id, { kind: "site", id, change: "removed", places: [{ site_id: id, fleet_id: null }] });
    return site;
  });
}

const nameConflict = (name: string): Error => conflict(`a site with the name ${printable(name)} exists already`);

/** Throws 404 unless the org has the site. Inside a transaction, locks it against deletion. */
export async function requireSite(db: Db, org_id: string, id: string): Promise<void> {
  found(await shareSite(db, org_id, id), "site", id);
}
