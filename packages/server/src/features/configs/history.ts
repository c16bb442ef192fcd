import type { JsonValue } from "@roamfleet/protocol";
import type { AnswerOf, QueryOf, Routes } from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, Fault, notFound } from "../../kernel/fault.ts";
import { readPage } from "../../kernel/page.ts";
import { announce } from "../events/index.ts";
import { openOrgSecrets, type Sealing } from "./data-keys.ts";
import { lockNamespace } from "./schema-store.ts";
import { entryBound } from "./sealed-value.ts";
import { type EntrySet, putValue } from "./set.ts";
import { type EntryRow, findEntry, findPlaced, findVersion, insertVersion, listVersions, removeEntry, type VersionRow } from "./store.ts";
import { versionToWire } from "./wire.ts";

/** Removes a value; its versions stay in the history. Returns the entry as it was before. */
export async function removeConfig(
  plane: Sealing,
  db: Db,
  { org_id, actor }: Caller,
  id: string,
): Promise<{ entry: EntryRow; schema: JsonValue }> {
  return await db.transaction(async (tx) => {
    const seen = await findEntry(tx, org_id, id);
    if (seen === undefined) throw notFound("config", id);
    const { value_schema } = await lockNamespace(tx, org_id, seen.namespace);
    const entry = await findEntry(tx, org_id, id);
    if (entry === undefined) throw notFound("config", id);
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
  if ((await findPlaced(db, org_id, { id })) === undefined) throw notFound("config", id);
  return readPage(
    query,
    ["listConfigHistory", org_id, id],
    ({ after, limit }) => listVersions(db, org_id, id, readVersion(after), limit),
    ({ version }) => String(version),
    versionToWire,
  );
}

/** Higher than every version. */
const VERSIONS_END = 2_147_483_647;

function readVersion(after: string | null): number {
  const version = Number(after ?? VERSIONS_END);
  if (!Number.isInteger(version) || version < 0 || version > VERSIONS_END)
    throw badRequest("cursor is invalid: use next_cursor of the previous page");
  return version;
}

const readVersionRow = async (db: Db, org_id: string, id: string, version: number): Promise<VersionRow | undefined> =>
  version > VERSIONS_END ? undefined : await findVersion(db, org_id, id, version);

/** Whether the version's value is a secret: then only an admin may set it again. */
export async function isSecretVersion(db: Db, org_id: string, id: string, version: number): Promise<boolean> {
  return (await readVersionRow(db, org_id, id, version))?.sealed != null;
}

/** Sets the value of an earlier version again, as a new version; also of a removed entry. */
export async function rollBackConfig(plane: Sealing, db: Db, caller: Caller, id: string, version: number): Promise<EntrySet> {
  const { org_id } = caller;
  return await db.transaction(async (tx) => {
    const placed = await findPlaced(tx, org_id, { id });
    if (placed === undefined) throw notFound("config", id);
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
