import type { JsonValue } from "@roamfleet/protocol";
import type { ConfigEntry, ConfigSchema, ConfigVersion } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { SchemaRow } from "./schema-store.ts";
import type { EntryRow, VersionRow } from "./store.ts";

/** `schema` is the namespace's; the entry shows the part for its key. */
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

export const versionToWire = (row: VersionRow): ConfigVersion => ({
  config_id: row.config_id,
  version: row.version,
  change: row.change,
  value: row.value,
  secret: row.sealed !== null,
  rollback_of: row.rollback_of,
  actor: row.actor,
  at: wireTime(row.at),
});

export const schemaToWire = (row: SchemaRow): ConfigSchema => ({
  namespace: row.namespace,
  schema: row.value_schema,
  version: row.schema_version,
  updated_by: row.schema_updated_by,
  updated_at: wireTime(row.schema_updated_at),
});
