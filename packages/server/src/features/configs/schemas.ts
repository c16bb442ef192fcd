import { type ConfigSchema, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, found, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { pages, readPage } from "../../kernel/page.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { compileSchema, type CompiledSchema } from "./schema.ts";
import { type EntryRow, findSchema, listOpenEntriesOf, listSchemas, lockNamespace, type SchemaRow, setSchema } from "./store.ts";
import { requireFileName } from "./set.ts";

const CHUNK_ENTRIES = 500;
const SHOWN_MAX = 10;

export function schemaRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listConfigSchemas, async (_, { query, caller, db }) =>
    readPage(
      query,
      [routes.listConfigSchemas.name, caller.org_id],
      (window) => listSchemas(db, caller.org_id, window),
      toWire,
      ({ namespace }) => namespace,
    ),
  );
  serve(http, plane, routes.getConfigSchema, async (_, { params, caller, db }) => ({
    data: toWire(await requireSchema(db, caller.org_id, params.namespace)),
  }));
  serve(http, plane, routes.setConfigSchema, async (_, { params, body, caller, db }) => {
    const row = await putSchema(plane, db, caller, params.namespace, body.schema);
    return new Answer(row.schema_version === 1 ? 201 : 200, { data: toWire(row) });
  });
  serve(http, plane, routes.deleteConfigSchema, async (_, { params, caller, db }) => ({
    data: toWire(await removeSchema(plane, db, caller, params.namespace)),
  }));
}

const toWire = (row: SchemaRow): ConfigSchema => ({
  namespace: row.namespace,
  schema: row.value_schema,
  version: row.schema_version,
  updated_by: row.schema_updated_by,
  updated_at: wireTime(row.schema_updated_at),
});

const requireSchema = async (db: Db, org_id: string, namespace: string): Promise<SchemaRow> =>
  found(await findSchema(db, org_id, namespace), "schema of namespace", namespace);

/**
 * Sets a namespace's schema. Throws 409 with the names of values that violate it; the user must change those values first. Does not
 * validate secrets: otherwise a user could find out a secret bit by bit, by setting different schemas.
 */
async function putSchema(plane: Plane, db: Db, { org_id, actor }: Caller, namespace: string, schema: unknown): Promise<SchemaRow> {
  requireFileName(namespace);
  const compiled = compileSchema(schema);
  return await db.transaction(async (tx) => {
    await lockNamespace(tx, org_id, namespace);
    const broken = await listBroken(tx, org_id, namespace, compiled);
    if (broken.length > 0) {
      const more = broken.length > SHOWN_MAX ? "; and more" : "";
      throw conflict(`values of namespace ${printable(namespace)} violate the schema: ${broken.slice(0, SHOWN_MAX).join("; ")}${more}`);
    }
    await setSchema(tx, org_id, namespace, schema, actor, plane.clock.now());
    announce(tx, plane, org_id, { kind: "config_schema", id: namespace, change: "updated" });
    return await requireSchema(tx, org_id, namespace);
  });
}

async function removeSchema(plane: Plane, db: Db, { org_id, actor }: Caller, namespace: string): Promise<SchemaRow> {
  return await db.transaction(async (tx) => {
    const before = await requireSchema(tx, org_id, namespace);
    await lockNamespace(tx, org_id, namespace);
    await setSchema(tx, org_id, namespace, undefined, actor, plane.clock.now());
    announce(tx, plane, org_id, { kind: "config_schema", id: namespace, change: "removed" });
    return before;
  });
}

/** Returns descriptions of the values that violate the schema. Stops reading when it has more than the error message shows. */
async function listBroken(tx: Db, org_id: string, namespace: string, schema: CompiledSchema): Promise<string[]> {
  const broken: string[] = [];
  const read = (last: EntryRow | undefined) => listOpenEntriesOf(tx, org_id, namespace, last?.id ?? "", CHUNK_ENTRIES);
  for await (const entries of pages(CHUNK_ENTRIES, read)) {
    for (const entry of entries) {
      const violation = schema.member(entry.key, entry.value);
      if (violation !== undefined) broken.push(`${printable(violation.path || entry.key)} of ${whereOf(entry)} ${violation.problem}`);
    }
    if (broken.length > SHOWN_MAX) break;
  }
  return broken;
}

const whereOf = ({ scope, scope_id }: EntryRow): string => (scope === "org" ? "the org" : `${scope} ${scope_id}`);
