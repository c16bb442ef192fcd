import type { ConfigEntry } from "@robofleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import type { EntryRow } from "./store.ts";

export const toWire = (entry: EntryRow): ConfigEntry => ({
  id: entry.id,
  key: entry.key,
  value: entry.value,
  namespace: entry.namespace,
  scope: entry.scope,
  scope_id: entry.scope_id || null,
  version: entry.version,
  schema: entry.value_schema,
  updated_by: entry.updated_by,
  created_at: wireTime(entry.created_at),
  updated_at: wireTime(entry.updated_at),
});
