import { encodeFileName, FILE_NAME_BYTES_MAX, ID_PREFIXES, type JsonValue } from "@roamfleet/protocol";
import type { AnswerOf, BodyOf, ConfigEntry, QueryOf, Routes } from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, Fault, found, notFound, printable } from "../../kernel/fault.ts";
import { readPage } from "../../kernel/page.ts";
import { wireTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { ensureOrgSecrets, entryBound, openOrgSecrets, type Sealing } from "./data-keys.ts";
import { requireRegistryLogin } from "./effective.ts";
import { compileSchema, sentenceOf } from "./schema.ts";
import {
  type EntryPlace,
  type EntryRow,
  findEntry,
  findKeyThatIs,
  findPlaced,
  findVersion,
  insertVersion,
  listVersions,
  lockNamespace,
  lockScopeObject,
  putEntry,
  removeEntry,
  type Scope,
  type VersionRow,
} from "./store.ts";

const NAMESPACE_DEFAULT = "default";

type Body = BodyOf<Routes["setConfig"]>;

/** A value to set, with its history entry. */
interface NewValue {
  value: JsonValue;
  secret: boolean;
  /** The version whose value is restored; null for a new value. */
  rollback_of: number | null;
}

interface EntrySet {
  entry: EntryRow;
  /** The namespace's schema. */
  schema: JsonValue;
  /** Whether no value was set before: there never was one, or it was removed. */
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

/**
 * Sets a value and adds it to the history. Throws 400 if the value violates the schema. Throws 409 if its key is a secret in another scope
 * but not in this one, or the reverse.
 */
async function putValue(
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

/**
 * Throws 409 if the key is a secret in another scope but would not be one in this scope, or the reverse. So a user who omits `secret` by
 * mistake does not store a secret as readable text.
 */
async function requireSameSecrecy(tx: Db, caller: Caller, place: EntryPlace, secret: boolean): Promise<void> {
  const other = await findKeyThatIs(tx, caller, !secret, place);
  if (other === undefined) return;
  const reached = other.scope === "org" ? "for the org" : `for ${other.scope} ${other.scope_id}`;
  const where = other.is_reached ? reached : "elsewhere in the org";
  const key = `key ${printable(place.key)} of namespace ${printable(place.namespace)}`;
  throw secret
    ? conflict(
        `${key} is set without encryption ${where}: unset it there first, and use a new secret, because the old value is readable in its history`,
      )
    : conflict(`${key} is a secret ${where}: set it with secret: true (rf: --secret)`);
}

/** Throws 404 unless the org has the site, fleet or robot. Without a scope, `scope_id` may be the id of any of these. */
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
  if (scope_id !== undefined) throw badRequest("field scope_id can only be used with scope site, fleet or robot; omit it for scope org");
  return { scope, scope_id: "" };
}

/** Checks that a namespace is usable as a file name on the robot. */
export function requireFileName(namespace: string): void {
  // Clients and proxies interpret "." and ".." in a URL as path segments, even percent-encoded.
  if (namespace === "." || namespace === "..") throw badRequest(`field namespace must not be ${namespace}`);
  const bytes = encodeFileName(namespace).length;
  if (bytes > FILE_NAME_BYTES_MAX) {
    throw badRequest(`field namespace has ${bytes} bytes when percent-encoded as a file name; at most ${FILE_NAME_BYTES_MAX} are allowed`);
  }
}

/** Removes a value; its versions stay in the history. Returns the entry as it was before. */
export async function removeConfig(
  plane: Sealing,
  db: Db,
  { org_id, actor }: Caller,
  id: string,
): Promise<{ entry: EntryRow; schema: JsonValue }> {
  return await db.transaction(async (tx) => {
    const seen = found(await findEntry(tx, org_id, id), "config", id);
    const { value_schema } = await lockNamespace(tx, org_id, seen.namespace);
    const entry = found(await findEntry(tx, org_id, id), "config", id);
    const at = plane.clock.now();
    const version = entry.version + 1;
    await removeEntry(tx, org_id, id, version, actor.id, at);
    await insertVersion(tx, org_id, { config_id: id, version, change: "removed", value: null, sealed: null, rollback_of: null, actor, at });
    announce(tx, plane, org_id, { kind: "config", id, change: "removed" });
    return { entry, schema: value_schema };
  });
}

export async function listHistory(
  db: Db,
  { org_id }: Caller,
  id: string,
  query: QueryOf<Routes["listConfigHistory"]>,
): Promise<AnswerOf<Routes["listConfigHistory"]>> {
  found(await findPlaced(db, org_id, { id }), "config", id);
  return readPage(
    query,
    ["listConfigHistory", org_id, id],
    ({ after, limit }) => listVersions(db, org_id, id, readVersion(after), limit),
    ({ sealed, rollback_of, actor, at, ...version }) => ({ ...version, secret: sealed !== null, rollback_of, actor, at: wireTime(at) }),
    ({ version }) => String(version),
  );
}

/** The maximum of a 32-bit integer, which no version reaches. The history is listed from this number downward. */
const VERSIONS_END = 2_147_483_647;

function readVersion(after: string | null): number {
  const version = Number(after ?? VERSIONS_END);
  if (!Number.isInteger(version) || version < 0 || version > VERSIONS_END)
    throw badRequest("cursor is invalid: use next_cursor of the previous page");
  return version;
}

const readVersionRow = async (db: Db, org_id: string, id: string, version: number): Promise<VersionRow | undefined> =>
  version > VERSIONS_END ? undefined : await findVersion(db, org_id, id, version);

/** Whether the value of this version is a secret, which only an admin may restore. */
export async function isSecretVersion(db: Db, org_id: string, id: string, version: number): Promise<boolean> {
  return (await readVersionRow(db, org_id, id, version))?.sealed != null;
}

/** Restores the value of an earlier version as a new version. Also restores removed entries. */
export async function rollBackConfig(plane: Sealing, db: Db, caller: Caller, id: string, version: number): Promise<EntrySet> {
  const { org_id } = caller;
  return await db.transaction(async (tx) => {
    const placed = found(await findPlaced(tx, org_id, { id }), "config", id);
    const old = await readVersionRow(tx, org_id, id, version);
    if (old === undefined) throw new Fault("not_found", `config ${id} has no version ${version}`);
    if (old.change === "removed") throw conflict(`version ${version} removed the value: there is nothing to restore`);
    const secret = old.sealed !== null;
    const value =
      old.sealed === null
        ? old.value
        : (JSON.parse((await openOrgSecrets(tx, plane, org_id)).open(old.sealed, entryBound(id, version))) as JsonValue);
    return await putValue(plane, tx, caller, placed, { value, secret, rollback_of: version });
  });
}

/**
 * Converts an entry to its form in the API. `schema` is the schema of the entry's namespace. The result contains only the schema's part for
 * the entry's key.
 */
export const toWire = (entry: EntryRow, schema: JsonValue): ConfigEntry => ({
  id: entry.id,
  key: entry.key,
  value: entry.value,
  secret: entry.sealed !== null,
  namespace: entry.namespace,
  scope: entry.scope,
  scope_id: entry.scope_id || null,
  version: entry.version,
  schema: schemaOfKey(schema, entry.key),
  updated_by: entry.updated_by,
  removed_at: wireTime(entry.removed_at),
  created_at: wireTime(entry.created_at),
  updated_at: wireTime(entry.updated_at),
});

function schemaOfKey(schema: JsonValue, key: string): JsonValue {
  const properties = fieldOf(schema, "properties");
  return fieldOf(properties, key);
}

const fieldOf = (value: JsonValue, name: string): JsonValue =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, name) ? (value[name] ?? null) : null;
