import type { ApprovedOrg, Org } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { createCredential } from "../tokens/index.ts";
import { approveOrg, deletePendingOrg, deletePendingOrgsBefore, findOrg } from "./store.ts";
import { toWire } from "./wire.ts";

/** Approves a pending org and creates its first token, which no later response contains. 409 if the org is not pending. */
export async function approve(plane: Plane, db: Db, id: string): Promise<ApprovedOrg> {
  return await db.transaction(async (tx) => {
    const org = await approveOrg(tx, id, plane.clock.now());
    if (org === undefined) {
      const present = await findOrg(tx, id);
      if (present === undefined) throw notFound("org", id);
      throw conflict(`org ${id} is ${present.status}, not pending; its first token was returned when it was approved`);
    }
    const { secret } = await createCredential(tx, plane, { kind: "org", org_id: id, role: "admin", label: "bootstrap" });
    return { ...toWire(org), status: "active", token: secret };
  });
}

/** Deletes a pending org. Returns it as it was; 409 for an org that is not pending. */
export async function reject(db: Db, id: string): Promise<Org> {
  const org = await deletePendingOrg(db, id);
  if (org !== undefined) return toWire(org);
  const present = await findOrg(db, id);
  if (present === undefined) throw notFound("org", id);
  throw conflict(`org ${id} is ${present.status}, not pending; suspend it instead`);
}

/** Deletes orgs that have been pending since before then. */
export async function dropPendingOrgs(db: Db, before: Date): Promise<void> {
  await deleteIsolated(isOutage, (limit, offset) => deletePendingOrgsBefore(db, before, limit, offset));
}
