import { LOG_LEVELS, LOG_MESSAGE_CHARACTERS_MAX, type LogLevel } from "@roamfleet/protocol/link";
import type { LogRecord } from "../contract.ts";

/** Maximum bytes of a record as a line, in the spool and in a batch. */
export const LOG_LINE_BYTES_MAX = 160 * 1024;
const SOURCE_CHARACTERS_MAX = 200;
const FIELDS_BYTES_MAX = 32 * 1024;
/**
 * Maximum depth of fields; deeper ones are not sent. Receivers limit the depth of JSON, and one record must not make a whole batch invalid.
 */
const FIELDS_DEPTH_MAX = 16;

/**
 * Encodes one record as one line of JSON that every receiver accepts. Newlines and control characters in a workload's output are escaped, invalid
 * Unicode is replaced. Text that is too long is truncated, with a note in `fields`.
 */
export function encodeRecord(seq: number, record: LogRecord, now: () => Date): string {
  const at = record.at !== undefined && !Number.isNaN(record.at.getTime()) ? record.at : now();
  const level: LogLevel = LOG_LEVELS.includes(record.level) ? record.level : "info";
  const source = record.source.toWellFormed().slice(0, SOURCE_CHARACTERS_MAX).toWellFormed() || "unknown";
  const { message, cut_bytes } = cutMessage(record.message);
  const fields = encodeFields(cut_bytes === 0 ? record.fields : { ...record.fields, truncated_bytes: cut_bytes });
  return `{"seq":${seq},"at":"${at.toISOString()}","level":"${level}","source":${JSON.stringify(source)},"message":${JSON.stringify(message)},"fields":${fields}}`;
}

/** Encodes a record that reports a gap. Its number is that of the last lost record, so its acknowledgement covers all lost records. */
export function encodeGap(gap: { from: number; to: number; count: number }, now: () => Date): string {
  const record: LogRecord = {
    level: "warn",
    source: "roamfleet",
    message: `${gap.count} records dropped`,
    fields: { gap: { count: gap.count, from_seq: gap.from, to_seq: gap.to } },
  };
  return encodeRecord(gap.to, record, now);
}

/** Returns the number of a record that `encodeRecord` made; undefined if the line is damaged. */
export function lineSeq(line: string): number | undefined {
  const match = /^\{"seq":(\d{1,16}),/.exec(line);
  return match === null ? undefined : Number(match[1]);
}

function cutMessage(text: string): { message: string; cut_bytes: number } {
  const message = text.toWellFormed();
  if (message.length <= LOG_MESSAGE_CHARACTERS_MAX) return { message, cut_bytes: 0 };
  // Do not cut between the two halves of a surrogate pair.
  const high = message.charCodeAt(LOG_MESSAGE_CHARACTERS_MAX - 1);
  const end = high >= 0xd800 && high <= 0xdbff ? LOG_MESSAGE_CHARACTERS_MAX - 1 : LOG_MESSAGE_CHARACTERS_MAX;
  return { message: message.slice(0, end), cut_bytes: Buffer.byteLength(message.slice(end)) };
}

function encodeFields(fields: Record<string, unknown> | undefined): string {
  if (fields === undefined) return "{}";
  const kept = typeof fields.truncated_bytes === "number" ? { truncated_bytes: fields.truncated_bytes } : {};
  if (depthOver(fields, FIELDS_DEPTH_MAX)) return JSON.stringify({ ...kept, fields_dropped: "nested too deeply" });
  let json: string;
  try {
    json = JSON.stringify(fields, (_, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value));
  } catch {
    return JSON.stringify({ ...kept, fields_dropped: "not JSON" });
  }
  if (Buffer.byteLength(json) > FIELDS_BYTES_MAX) return JSON.stringify({ ...kept, fields_dropped: "too long" });
  return json;
}

/** Returns whether a value is nested deeper than `depth_max`; also true for a cycle. */
function depthOver(value: unknown, depth_max: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depth_max === 0) return true;
  return Object.values(value).some((inner) => depthOver(inner, depth_max - 1));
}
