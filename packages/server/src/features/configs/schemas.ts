import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound, printable } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import type { Sealing } from "./data-keys.ts";
import { compileSchema, type CompiledSchema } from "./schema.ts";
import { findSchema, lockNamespace, type SchemaRow, setSchema } from "./schema-store.ts";
import { requireFileName } from "./set.ts";
import { type EntryRow, listOpenEntriesOf } from "./store.ts";

const CHUNK_ENTRIES = 500;
const SHOWN_MAX = 10;

export async function requireSchema(db: Db, org_id: string, namespace: string): Promise<SchemaRow> {
  const row = await findSchema(db, org_id, namespace);
  if (row === undefined) throw notFound("schema of namespace", namespace);
  return row;
}

/**
 * Sets a namespace's schema. Throws 409 that names the values which violate it: those must be changed first. Secrets are not validated,
 * because a user who may set schemas could read a secret bit by bit from the results.
 */
export async function putSchema(
  plane: Pick<Sealing, "clock" | "bus">,
  db: Db,
  { org_id, actor }: Caller,
  namespace: string,
  schema: unknown,
): Promise<SchemaRow> {
  requireFileName(namespace);
  const compiled = compileSchema(schema);
  return await db.transaction(async (tx) => {
    await lockNamespace(tx, org_id, namespace);
    const broken = await listBroken(tx, org_id, namespace, compiled);
    if (broken.length > 0) {
      const more = broken.length > SHOWN_MAX ? "; and more" : "";
      throw conflict(`values of namespace ${printable(namespace)} break the schema: ${broken.slice(0, SHOWN_MAX).join("; ")}${more}`);
    }
    await setSchema(tx, org_id, namespace, schema, actor, plane.clock.now());
    announce(tx, plane, org_id, { kind: "config_schema", id: namespace, change: "updated" });
    return await requireSchema(tx, org_id, namespace);
  });
}

export async function removeSchema(
  plane: Pick<Sealing, "clock" | "bus">,
  db: Db,
  { org_id, actor }: Caller,
  namespace: string,
): Promise<SchemaRow> {
  return await db.transaction(async (tx) => {
    const before = await requireSchema(tx, org_id, namespace);
    await lockNamespace(tx, org_id, namespace);
    await setSchema(tx, org_id, namespace, undefined, actor, plane.clock.now());
    announce(tx, plane, org_id, { kind: "config_schema", id: namespace, change: "removed" });
    return before;
  });
}

/** Describes violating values; returns at most one more than is shown. */
async function listBroken(tx: Db, org_id: string, namespace: string, schema: CompiledSchema): Promise<string[]> {
  const broken: string[] = [];
  for (let after = ""; broken.length <= SHOWN_MAX;) {
    const entries = await listOpenEntriesOf(tx, org_id, namespace, after, CHUNK_ENTRIES);
    for (const entry of entries) {
      const violation = schema.member(entry.key, entry.value);
      if (violation !== undefined) broken.push(`${printable(violation.path || entry.key)} of ${whereOf(entry)} ${violation.problem}`);
    }
    if (entries.length < CHUNK_ENTRIES) break;
    after = entries.at(-1)?.id ?? "";
  }
  return broken;
}

const whereOf = ({ scope, scope_id }: EntryRow): string => (scope === "org" ? "the org" : `${scope} ${scope_id}`);
