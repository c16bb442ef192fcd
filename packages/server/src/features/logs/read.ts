import { LOG_LEVELS, type LogLevel } from "@robofleet/protocol/link";
import type { LogRecord } from "@robofleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { wireTime } from "../../kernel/time.ts";
import { unpack } from "./codec.ts";
import { type BatchFilter, type BatchKey, type BatchRow, latestBatches } from "./store.ts";
import { toWire } from "./wire.ts";

const BATCHES_A_READ = 64;
/** JSON that one request looks through; then it answers what it found and a cursor to go on from. */
const SCANNED_BYTES_MAX = 32 * 1024 * 1024;

export interface LogFilter extends BatchFilter {
  level: LogLevel | undefined;
  source: string | undefined;
  q: string | undefined;
}

/** Records of this batch before `seq`, and all older ones. */
export interface LogKey extends BatchKey {
  seq: number;
}

/** Batches from a key back, the key's own included, newest first; fewer than `limit` are the last ones. */
export type BatchScan = (from: BatchKey | undefined, limit: number) => Promise<BatchRow[]>;

export interface LogScan {
  /** Newest first. */
  records: LogRecord[];
  /** Where older ones may be; undefined when there are none. */
  next: LogKey | undefined;
}

/** Looks through batches from `after` back for at most `wanted` records. */
export async function scanLogs(scan: BatchScan, filter: LogFilter, after: LogKey | undefined, wanted: number): Promise<LogScan> {
  const matches = matcher(filter);
  const records: LogRecord[] = [];
  let scanned_bytes = 0;
  let next = after;
  /** The last record that is wanted; one more decides whether the list goes on behind it. */
  let end: LogKey | undefined;
  for (;;) {
    const limit = Math.min(BATCHES_A_READ, Math.max(4, wanted - records.length));
    const batches = await scan(next, limit);
    for (const batch of batches) {
      const { robot_id, received_at, first_seq } = batch;
      const unpacked = unpack(batch.codec, batch.records);
      scanned_bytes += unpacked.bytes;
      const before = next !== undefined && isSameBatch(next, batch) ? next.seq : Infinity;
      const received = wireTime(received_at);
      for (const record of unpacked.records.toReversed()) {
        if (record.seq >= before) continue;
        const wire = toWire(record, robot_id, received);
        if (!matches(wire)) continue;
        if (end !== undefined) return { records, next: end };
        records.push(wire);
        if (records.length === wanted) end = { robot_id, received_at, first_seq, seq: record.seq };
      }
    }
    const last = batches.at(-1);
    if (last === undefined || batches.length < limit) return { records, next: undefined };
    next = { robot_id: last.robot_id, received_at: last.received_at, first_seq: last.first_seq, seq: 0 };
    if (scanned_bytes > SCANNED_BYTES_MAX) return { records, next: end ?? next };
  }
}

const isSameBatch = (a: BatchKey, b: BatchKey): boolean =>
  a.robot_id === b.robot_id && a.first_seq === b.first_seq && a.received_at.getTime() === b.received_at.getTime();

function matcher({ since, until, level, source, q }: LogFilter): (record: LogRecord) => boolean {
  // Stored times all have one form, so they compare as text.
  const [from, to] = [since?.toISOString(), until?.toISOString()];
  const levels = level === undefined ? undefined : new Set<string>(LOG_LEVELS.slice(LOG_LEVELS.indexOf(level)));
  const wanted = q?.toLowerCase();
  return (record) =>
    (from === undefined || record.at >= from) &&
    (to === undefined || record.at < to) &&
    (levels === undefined || levels.has(record.level)) &&
    (source === undefined || record.source === source) &&
    (wanted === undefined || record.message.toLowerCase().includes(wanted));
}

export interface LatestLogs {
  /** Oldest first. */
  records: LogRecord[];
  /** How far the log was stored when this was read: a flush of this spool up to `seq` is in it. */
  position: { outbox_id: string; seq: number } | undefined;
}

/** The last `count` records of a robot, and up to where they reach: what a follower needs to go on without a hole. */
export async function latestLogs(db: Db, org_id: string, robot_id: string, count: number): Promise<LatestLogs> {
  // Each batch has a record at least.
  const batches = await latestBatches(db, org_id, robot_id, count);
  const records: LogRecord[] = [];
  for (const batch of batches) {
    const received_at = wireTime(batch.received_at);
    for (const record of unpack(batch.codec, batch.records).records.toReversed()) {
      if (records.length < count) records.push(toWire(record, robot_id, received_at));
    }
    if (records.length >= count) break;
  }
  const [newest] = batches;
  const position =
    newest === undefined || newest.outbox_id === null || newest.position === null
      ? undefined
      : { outbox_id: newest.outbox_id, seq: newest.position };
  return { records: records.toReversed(), position };
}
