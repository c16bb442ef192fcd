import { encodeFileName, FILE_NAME_BYTES_MAX } from "@robofleet/protocol";
import type { BodyOf, Routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, notFound } from "../../kernel/fault.ts";
import { type ConfigScope, scopeExists, setEntry } from "./store.ts";

export const DEFAULT_NAMESPACE = "default";

/** Sets a value at a scope. No robot changes by that: a config deployment brings it there. */
export async function setConfig(db: Db, plane: Pick<Plane, "id" | "clock">, caller: Caller, body: BodyOf<Routes["setConfig"]>) {
  const { org_id } = caller;
  const namespace = body.namespace ?? DEFAULT_NAMESPACE;
  requireFileName(namespace);
  const { scope, scope_id } = await readScope(db, org_id, body.scope, body.scope_id);
  const { inserted, ...entry } = await setEntry(
    db,
    { org_id, id: plane.id("cfg"), namespace, key: body.key, scope, scope_id, value: body.value, updated_by: caller.actor.id },
    plane.clock.now(),
  );
  return { entry, inserted };
}

/** A namespace becomes a file on the robot. */
export function requireFileName(namespace: string): void {
  const bytes = encodeFileName(namespace).length;
  if (bytes > FILE_NAME_BYTES_MAX) throw badRequest(`field namespace is too long: as the name of a file it has ${bytes} bytes, at most ${FILE_NAME_BYTES_MAX} are possible`);
}

async function readScope(db: Db, org_id: string, scope: ConfigScope = "org", scope_id?: string): Promise<{ scope: ConfigScope; scope_id: string }> {
  if (scope === "org") {
    if (scope_id !== undefined) throw badRequest("scope_id needs scope beside it: site, fleet or robot");
    return { scope, scope_id: "" };
  }
  if (scope_id === undefined) throw badRequest(`scope ${scope} needs scope_id beside it: the ${scope}'s id`);
  if (!(await scopeExists(db, org_id, scope, scope_id))) throw notFound(scope, scope_id);
  return { scope, scope_id };
}
