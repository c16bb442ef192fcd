import type { BodyOf, Org, OwnOrg, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isUniqueViolation } from "../../engines/db/index.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { HINT_SUSPENDED } from "../robots/index.ts";
import { nameTaken } from "./request.ts";
import { findOrg, lockOrg, type OrgRow, type OrgSettings, switchOrg, updateOrg } from "./store.ts";
import { toOwnWire, toWire } from "./wire.ts";

export async function requireOrg(db: Db, id: string): Promise<OrgRow> {
  const org = await findOrg(db, id);
  if (org === undefined) throw notFound("org", id);
  return org;
}

/** Suspends an org. Requests, links and the scheduler check its status. Idempotent. 409 for a pending org. */
export const suspend = (plane: Plane, db: Db, id: string): Promise<Org> => change(plane, db, id, "active", "suspended");

/** Resumes a suspended org. Idempotent. 409 for a pending org. */
export const resume = (plane: Plane, db: Db, id: string): Promise<Org> => change(plane, db, id, "suspended", "active");

async function change(plane: Plane, db: Db, id: string, from: "active" | "suspended", to: "active" | "suspended"): Promise<Org> {
  const org = await switchOrg(db, id, from, to, plane.clock.now());
  if (org !== undefined) {
    announce(db, plane, id, { kind: "org", id, change: "status", status: to });
    if (to === "suspended") db.afterCommit(() => plane.bus.publish(HINT_SUSPENDED, null));
    return toWire(org);
  }
  const { status } = await requireOrg(db, id);
  throw conflict(`org ${id} is ${status}, neither active nor suspended; approve it first`);
}

/** Changes the name and the settings that are in the body. */
export async function changeOwnOrg(plane: Plane, db: Db, id: string, body: BodyOf<Routes["updateOrg"]>): Promise<OwnOrg> {
  return await db.transaction(async (tx) => {
    const org = await lockOrg(tx, id);
    const name = body.name ?? org.name;
    try {
      const changed = await updateOrg(tx, id, { name, settings: merged(org.settings, body.settings) }, plane.clock.now());
      announce(tx, plane, id, { kind: "org", id, change: "updated" });
      return toOwnWire(changed);
    } catch (error) {
      if (isUniqueViolation(error)) throw nameTaken(name);
      throw error;
    }
  });
}

function merged(
  settings: OrgSettings,
  { deployment_expires_days: days }: NonNullable<BodyOf<Routes["updateOrg"]>["settings"]> = {},
): OrgSettings {
  if (days === undefined) return settings;
  const { deployment_expires_days: _, ...rest } = settings;
  return days === 0 ? rest : { ...rest, deployment_expires_days: days };
}
