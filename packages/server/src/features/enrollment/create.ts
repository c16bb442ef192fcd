import { hash, randomBytes } from "node:crypto";
import { ID_PREFIXES, SECRET_PREFIXES } from "@roamfleet/protocol";
import type { BodyOf, NewEnrollmentKey, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, mayInWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, forbidden } from "../../kernel/fault.ts";
import { authorityOf } from "../access/index.ts";
import { announce } from "../events/index.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireSite } from "../sites/index.ts";
import { insertKey } from "./store.ts";
import { toWire } from "./wire.ts";

export const SECRET_BYTES = 32;
const HOUR_MS = 3_600_000;
const MAX_USES_DEFAULT = 100;
const EXPIRES_IN_HOURS_DEFAULT = 24;

export const keyHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

/** Creates a key. Only its hash is stored, so `key` in the response is the only time it is visible. */
export async function createKey(
  plane: Plane,
  db: Db,
  caller: Caller,
  body: BodyOf<Routes["createEnrollmentKey"]>,
): Promise<NewEnrollmentKey> {
  const { site_id, fleet_id, label, max_uses = MAX_USES_DEFAULT, expires_in_hours = EXPIRES_IN_HOURS_DEFAULT } = body;
  const { org_id } = caller;
  const is_admin = mayInWholeOrg(caller, "admin");
  const { trusted = is_admin } = body;
  if (trusted && !is_admin) throw forbidden("field trusted: only an admin of the whole org may create a key whose robots get secrets");
  const secret = SECRET_PREFIXES.enrollment_key + randomBytes(SECRET_BYTES).toString("hex");
  const at = plane.clock.now();
  return await db.transaction(async (tx) => {
    await requireSite(tx, org_id, site_id);
    const fleet = await requireFleet(tx, org_id, fleet_id);
    if (fleet.site_id !== site_id) throw badRequest(`fleet_id: fleet ${fleet_id} is not at site ${site_id}`);
    const key = await insertKey(tx, {
      org_id,
      id: plane.id(ID_PREFIXES.enrollment_key),
      hash: keyHash(secret),
      label: label ?? null,
      site_id,
      fleet_id,
      robot_id: null,
      trusted,
      max_uses,
      expires_at: expires_in_hours === 0 ? null : new Date(at.getTime() + expires_in_hours * HOUR_MS),
      created_by: caller.actor,
      authority: authorityOf(caller),
      at,
    });
    announce(tx, plane, org_id, { kind: "enrollment_key", id: key.id, change: "created", fleet_id });
    return { ...toWire(key, at), key: secret };
  });
}
