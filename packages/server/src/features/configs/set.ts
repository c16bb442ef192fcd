import { encodeFileName, FILE_NAME_BYTES_MAX, ID_PREFIXES, type JsonValue } from "@roamfleet/protocol";
import type { BodyOf, Routes } from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, notFound, printable } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { ensureOrgSecrets, type Sealing } from "./data-keys.ts";
import { requireRegistryLogin } from "./registry-logins.ts";
import { compileSchema, sentenceOf } from "./schema.ts";
import { lockNamespace } from "./schema-store.ts";
import { entryBound } from "./sealed-value.ts";
import {
  type EntryPlace,
  type EntryRow,
  findKeyThatIs,
  findPlaced,
  insertVersion,
  lockScopeObject,
  putEntry,
  type Scope,
} from "./store.ts";

export const NAMESPACE_DEFAULT = "default";

type Body = BodyOf<Routes["setConfig"]>;

/** A value to set, with its history entry. */
export interface NewValue {
  value: JsonValue;
  secret: boolean;
  /** The version whose value is restored; null for a new value. */
  rollback_of: number | null;
}

export interface EntrySet {
  entry: EntryRow;
  /** The namespace's schema. */
  schema: JsonValue;
  /** There was no value: it was never set, or it was removed. */
  is_new: boolean;
}

/** Sets a value for the org, a site, a fleet or a robot. Robots get it with the next config deployment. */
export async function setConfig(plane: Sealing, db: Db, caller: Caller, body: Body): Promise<EntrySet> {
  const namespace = body.namespace ?? NAMESPACE_DEFAULT;
  requireFileName(namespace);
  const place = { namespace, key: body.key, ...readScope(body) };
  return await db.transaction((tx) =>
    putValue(plane, tx, caller, place, { value: body.value as JsonValue, secret: body.secret === true, rollback_of: null }),
  );
}

/** Sets a value and adds it to the history. Throws 400 if it violates the schema, 409 if its key is a secret elsewhere. */
export async function putValue(
  plane: Sealing,
  tx: Db,
  caller: Caller,
  place: EntryPlace,
  { value, secret, rollback_of }: NewValue,
): Promise<EntrySet> {
  const { org_id, actor } = caller;
  const { namespace, key, scope, scope_id } = place;
  requireRegistryLogin(namespace, key, value, secret);
  const { value_schema } = await lockNamespace(tx, org_id, namespace);
  if (scope !== "org" && !(await lockScopeObject(tx, org_id, scope, scope_id))) throw notFound(scope, scope_id);
  await requireSameSecrecy(tx, caller, place, secret);
  const violation = value_schema === null ? undefined : compileSchema(value_schema).member(key, value, secret);
  if (violation !== undefined) throw badRequest(sentenceOf(namespace, violation));
  const before = await findPlaced(tx, org_id, place);
  const id = before?.id ?? plane.id(ID_PREFIXES.config);
  const version = (before?.version ?? 0) + 1;
  const sealed = secret ? (await ensureOrgSecrets(tx, plane, org_id)).seal(JSON.stringify(value), entryBound(id, version)) : null;
  const at = plane.clock.now();
  const kept = { value: sealed === null ? value : null, sealed };
  const entry = await putEntry(tx, org_id, { id, ...place, version, ...kept, updated_by: actor.id }, at);
  const change = rollback_of === null ? "set" : "rolled_back";
  await insertVersion(tx, org_id, { config_id: id, version, change, ...kept, rollback_of, actor, at });
  const is_new = before === undefined || before.removed;
  announce(tx, plane, org_id, { kind: "config", id, change: is_new ? "created" : "updated" });
  return { entry, schema: value_schema, is_new };
}

/** A key is a secret wherever it is set, or nowhere: otherwise setting it again without `secret` would reveal it. */
async function requireSameSecrecy(tx: Db, caller: Caller, place: EntryPlace, secret: boolean): Promise<void> {
  const other = await findKeyThatIs(tx, caller, !secret, place);
  if (other === undefined) return;
  const found = other.scope === "org" ? "for the org" : `for ${other.scope} ${other.scope_id}`;
  const where = other.is_reached ? found : "elsewhere in the org";
  const key = `key ${printable(place.key)} of namespace ${printable(place.namespace)}`;
  throw secret
    ? conflict(
        `${key} is set ${where} in the clear: unset it there first, and use a new secret, because the old value is readable in its history`,
      )
    : conflict(`${key} is a secret ${where}: set it with secret: true (rf: --secret)`);
}

/** Throws 404 unless the org has the site, fleet or robot; without a scope the id may be of any of them. */
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

/** Checks that a namespace is usable as a file name on the robot. */
export function requireFileName(namespace: string): void {
  // Clients and proxies interpret these two as path segments, even percent-encoded.
  if (namespace === "." || namespace === "..") throw badRequest(`field namespace must not be ${namespace}`);
  const bytes = encodeFileName(namespace).length;
  if (bytes > FILE_NAME_BYTES_MAX) {
    throw badRequest(
      `field namespace makes a file name of ${bytes} bytes when it is percent-encoded; at most ${FILE_NAME_BYTES_MAX} are allowed`,
    );
  }
}
