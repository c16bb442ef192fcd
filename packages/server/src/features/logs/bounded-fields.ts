import type { LogRecordBody } from "@roamfleet/protocol/link";

/** Most nested levels of `fields`. JSON.stringify overflows the stack at about 5,000, and no page with such a record could be returned. */
export const FIELDS_DEPTH_MAX = 64;
const REPLACEMENT = { fields_dropped: `nested deeper than ${FIELDS_DEPTH_MAX} levels` };

/** Whether a value has more than `levels` nested lists and objects. Does not recurse deeper. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  for (const inner of Object.values(value)) if (typeof inner === "object" && isDeeper(inner, levels - 1)) return true;
  return false;
}

/** Replaces the fields of a record that are nested too deeply, in place; returns whether it did. */
export function boundFields(record: LogRecordBody): boolean {
  if (!isDeeper(record.fields, FIELDS_DEPTH_MAX)) return false;
  record.fields = { ...REPLACEMENT };
  return true;
}
