import type { Place } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest } from "../../kernel/fault.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";

/** Returns the place that a request names: that of its fleet, else its site, else the whole org. Throws 404 if it does not exist. */
export async function requirePlace(
  db: Db,
  org_id: string,
  { site_id, fleet_id }: { site_id?: string | undefined; fleet_id?: string | undefined },
): Promise<Place> {
  if (site_id !== undefined) await requireSite(db, org_id, site_id);
  if (fleet_id === undefined) return { site_id: site_id ?? null, fleet_id: null };
  const fleet = await requireFleet(db, org_id, fleet_id);
  if (site_id !== undefined && site_id !== fleet.site_id) throw badRequest(`fleet ${fleet_id} does not belong to site ${site_id}`);
  return { site_id: fleet.site_id, fleet_id };
}
