import type { Scope, Scopes } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, Fault, printable } from "../../kernel/fault.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";

/**
 * Returns the distinct scopes, each one site or fleet of the org. 400 names the field of an invalid one. Inside a transaction, locks
 * the sites and fleets against deletion.
 */
export async function checkScopes(db: Db, org_id: string, scopes: Scopes, field = "scopes"): Promise<Scopes> {
  const known = new Map<string, Scope>();
  for (const [i, { site_id, fleet_id }] of scopes.entries()) {
    const at = `${field}.${i}`;
    if (site_id !== undefined && fleet_id === undefined) {
      await orBadRequest(`${at}.site_id`, "site", site_id, requireSite(db, org_id, site_id));
      known.set(`site ${site_id}`, { site_id });
    } else if (fleet_id !== undefined && site_id === undefined) {
      await orBadRequest(`${at}.fleet_id`, "fleet", fleet_id, requireFleet(db, org_id, fleet_id));
      known.set(`fleet ${fleet_id}`, { fleet_id });
    } else throw badRequest(`field ${at} must name exactly one of site_id and fleet_id`);
  }
  return [...known.values()];
}

async function orBadRequest(field: string, kind: string, id: string, found: Promise<unknown>): Promise<void> {
  try {
    await found;
  } catch (error) {
    if (error instanceof Fault && error.code === "not_found") throw badRequest(`field ${field}: ${kind} ${printable(id)} does not exist`);
    throw error;
  }
}
