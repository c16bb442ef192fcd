import { constants, deflateRawSync, inflateRawSync, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";

export type Codec = "zstd" | "deflate";

/**
 * Flushes of at least this size use zstd. Measured with records of 185 bytes, CPU time for each record and size of the flush:
 * 20 records take 0.56 µs with deflate and 0.95 µs with zstd (684 and 647 bytes), 200 records 0.18 and 0.21 µs, 1,000 records
 * 0.18 and 0.13 µs (19.9 and 14.1 KB). Creating a zstd context costs more than compressing a small flush.
 */
const ZSTD_FROM_BYTES = 64 * 1024;
const ZSTD_OPTIONS = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/**
 * Compresses the JSON array of one flush; pass `json` if it exists already. Runs synchronously, because a round trip to the thread pool
 * costs more, except for the largest flushes.
 */
export function pack(records: readonly LogRecordBody[], json?: Uint8Array): { codec: Codec; packed: Buffer } {
  const bytes = json ?? Buffer.from(JSON.stringify(records));
  return bytes.length < ZSTD_FROM_BYTES
    ? { codec: "deflate", packed: deflateRawSync(bytes, { level: 1 }) }
    : { codec: "zstd", packed: zstdCompressSync(bytes, ZSTD_OPTIONS) };
}

interface Packed {
  codec: Codec;
  records: Buffer;
  first_seq: number;
  received_at: Date;
}

/** Returns the record that replaces a damaged flush. */
const unreadable = ({ first_seq, received_at }: Packed): LogRecordBody => ({
  seq: first_seq,
  at: received_at.toISOString(),
  level: "error",
  source: "roamfleet",
  message: "records are missing here: the stored data is damaged",
  fields: {},
});

/** Decompresses the JSON array of a flush. Never throws, so one damaged flush does not make the others unreadable. */
export function unpack(batch: Packed): string {
  const { codec, records } = batch;
  try {
    return (codec === "zstd" ? zstdDecompressSync(records) : inflateRawSync(records)).toString("utf8");
  } catch {
    return JSON.stringify([unreadable(batch)]);
  }
}

/** Parses the records of a flush, in order. Replaces `fields` that are nested too deeply, which earlier versions stored. */
export function readRecords(json: string): LogRecordBody[] {
  const records = JSON.parse(json) as LogRecordBody[];
  for (const record of records) boundFields(record);
  return records;
}

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

export const toWire = (record: LogRecordBody, robot_id: string, received_at: string): LogRecord => ({ robot_id, received_at, ...record });

/** Returns the beginning of a record's JSON: the common fields, after which the fields of the record follow. */
export const lineHead = (robot_id: string, received_at: string): string => `${JSON.stringify({ robot_id, received_at }).slice(0, -1)},`;

/** Returns each record as JSON. The common fields are serialized once. */
export function toLines(records: readonly LogRecordBody[], robot_id: string, received_at: string): string[] {
  const head = lineHead(robot_id, received_at);
  return records.map((record) => head + JSON.stringify(record).slice(1));
}
