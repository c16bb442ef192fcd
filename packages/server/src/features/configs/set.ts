import { encodeFileName, FILE_NAME_BYTES_MAX, ID_PREFIXES } from "@robofleet/protocol";
import type { BodyOf, Routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, notFound } from "../../kernel/fault.ts";
import { type EntryRow, lockScopeObject, type Scope, upsertEntry } from "./store.ts";

export const NAMESPACE_DEFAULT = "default";

type Body = BodyOf<Routes["setConfig"]>;

/** Sets a value for the org, a site, a fleet or a robot; robots get it by a config deployment. Its version is 1 when it is new. */
export async function setConfig(plane: Pick<Plane, "clock" | "id">, db: Db, { org_id, actor }: Caller, body: Body): Promise<EntryRow> {
  const namespace = body.namespace ?? NAMESPACE_DEFAULT;
  requireFileName(namespace);
  const { scope, scope_id } = readScope(body);
  return await db.transaction(async (tx) => {
    if (scope !== "org" && !(await lockScopeObject(tx, org_id, scope, scope_id))) throw notFound(scope, scope_id);
    const entry = { id: plane.id(ID_PREFIXES.config), namespace, key: body.key, scope, scope_id, value: body.value, updated_by: actor.id };
    return await upsertEntry(tx, org_id, entry, plane.clock.now());
  });
}

/** 404 unless the org has the site, fleet or robot; without a scope the id may be of any of them. */
export async function requireScopeObject(db: Db, org_id: string, scope: Scope | undefined, scope_id: string): Promise<void> {
  const kinds = scope === undefined ? (["site", "fleet", "robot"] as const) : scope === "org" ? [] : [scope];
  for (const kind of kinds) if (await lockScopeObject(db, org_id, kind, scope_id)) return;
  throw notFound(scope ?? "site, fleet or robot", scope_id);
}

function readScope({ scope = "org", scope_id }: Body): { scope: Scope; scope_id: string } {
  if (scope !== "org") {
    if (scope_id === undefined) throw badRequest(`field scope_id is required: the id of the ${scope} that the value is for`);
    return { scope, scope_id };
  }
  if (scope_id !== undefined)
    throw badRequest("field scope_id needs field scope to be one of site, fleet, robot; at scope org it must be absent");
  return { scope, scope_id: "" };
}

/** A namespace is a file on the robot. */
export function requireFileName(namespace: string): void {
  // Clients and proxies take these two for steps in a path, also when they are percent-encoded.
  if (namespace === "." || namespace === "..") throw badRequest(`field namespace must not be ${namespace}`);
  const bytes = encodeFileName(namespace).length;
  if (bytes > FILE_NAME_BYTES_MAX) {
    throw badRequest(`field namespace makes a file name of ${bytes} bytes when it is percent-encoded; ${FILE_NAME_BYTES_MAX} are possible`);
  }
}
