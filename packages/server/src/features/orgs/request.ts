import { ID_PREFIXES } from "@roamfleet/protocol";
import type { BodyOf, Org, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isUniqueViolation } from "../../engines/db/index.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, forbidden, httpError, printable } from "../../kernel/fault.ts";
import { AddressRateLimit } from "../../kernel/rate-limit.ts";
import { countPending, insertOrg, type OrgRow } from "./store.ts";
import { toWire } from "./wire.ts";

/** Most pending requests. Anyone can send them, so they must not fill the database. */
const PENDING_ORGS_MAX = 1_000;
const RETRY_AFTER_SECONDS = 3_600;
const MINUTES_PER_HOUR = 60;

/** Creates a pending org. 409 if the name is taken. */
export async function addOrg(plane: Plane, db: Db, name: string, email: string | undefined): Promise<OrgRow> {
  try {
    return await insertOrg(db, { id: plane.id(ID_PREFIXES.org), name, email: email ?? null, at: plane.clock.now() });
  } catch (error) {
    if (isUniqueViolation(error)) throw nameTaken(name);
    throw error;
  }
}

export const nameTaken = (name: string) => conflict(`an org with the name ${printable(name)} exists already`);

/** Accepts unauthenticated requests for orgs, limited per hour and address. A limit of 0 refuses all. */
export function createOrgRequests(plane: Plane): (db: Db, ip: string, body: BodyOf<Routes["requestOrg"]>) => Promise<Org> {
  const { org_requests_per_hour: burst } = plane.settings.limits;
  const rate = new AddressRateLimit(plane.clock, "org-requests", { per_minute: burst / MINUTES_PER_HOUR, burst });
  return async (db, ip, { name, email }) => {
    if (burst === 0) throw forbidden("this server accepts no requests for orgs; ask its administrator");
    rate.take(ip);
    if ((await countPending(db)) >= PENDING_ORGS_MAX)
      throw httpError(503, "too many requests for orgs are pending; try again later", { "retry-after": String(RETRY_AFTER_SECONDS) });
    return toWire(await addOrg(plane, db, name, email));
  };
}
