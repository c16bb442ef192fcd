import type { JsonValue } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import type { Window } from "../../kernel/page.ts";
import { int, json, jsonb, list, row, type RowOf, sql, text, timestamptz, nullable } from "../../kernel/sql.ts";

const namespaceRow = row({ value_schema: nullable(jsonb<JsonValue>()), schema_version: int });

/** Locks a namespace: until the transaction ends no other one changes its values or schema. */
export const lockNamespace = (db: Db, org_id: string, namespace: string): Promise<RowOf<typeof namespaceRow>> =>
  db.one(sql(namespaceRow)`
    insert into config_namespace (org_id, namespace) values (${org_id}, ${namespace})
    on conflict (org_id, namespace) do update set namespace = excluded.namespace
    returning ${namespaceRow.of("config_namespace")}`);

const schemaRow = row({
  namespace: text,
  value_schema: jsonb<JsonValue>(),
  schema_version: int,
  schema_updated_by: jsonb<Actor>(),
  schema_updated_at: timestamptz,
});
export type SchemaRow = RowOf<typeof schemaRow>;

/** Sets a namespace's schema; undefined removes it. */
export const setSchema = (db: Db, org_id: string, namespace: string, schema: unknown, actor: Actor, now: Date): Promise<number> =>
  db.run(sql`
    update config_namespace
    set value_schema = ${json(schema)}, schema_version = schema_version + 1, schema_updated_by = ${json(actor)}, schema_updated_at = ${now}
    where org_id = ${org_id} and namespace = ${namespace}`);

export const findSchema = (db: Db, org_id: string, namespace: string): Promise<SchemaRow | undefined> =>
  db.maybe(sql(schemaRow)`
    select ${schemaRow} from config_namespace where org_id = ${org_id} and namespace = ${namespace} and value_schema is not null`);

export const listSchemas = (db: Db, org_id: string, { after, limit }: Window): Promise<SchemaRow[]> =>
  db.many(sql(schemaRow)`
    select ${schemaRow} from config_namespace where org_id = ${org_id} and namespace > ${after ?? ""} and value_schema is not null
    order by namespace limit ${limit}`);

/** Returns the schemas of those of these namespaces that have one. */
export const listSchemasOf = (db: Db, org_id: string, namespaces: Iterable<string>): Promise<SchemaRow[]> =>
  db.many(sql(schemaRow)`
    select ${schemaRow} from config_namespace where org_id = ${org_id} and namespace = any(${list(namespaces)}::text[]) and value_schema is not null`);
