import { setImmediate as turn } from "node:timers/promises";
import type { LogRecord } from "@robofleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { wireTime } from "../../kernel/time.ts";
import { readRecords, unpack } from "./codec.ts";
import type { LogMatch } from "./match.ts";
import { type BatchKey, type BatchRow, latestBatches } from "./store.ts";
import { toWire } from "./wire.ts";

/** Batches of a first read; each next one asks for more, until they are READ_BYTES of JSON. */
const BATCHES_A_READ = 64;
const BATCHES_A_READ_MAX = 512;
const READ_BYTES = 1024 * 1024;
/** JSON that one request looks through; then it answers what it found and a cursor to go on from. */
const SCANNED_BYTES_MAX = 32 * 1024 * 1024;
/** JSON that is looked through before others have their turn. */
const TURN_BYTES = 512 * 1024;

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
export async function scanLogs(scan: BatchScan, match: LogMatch, after: LogKey | undefined, wanted: number): Promise<LogScan> {
  const records: LogRecord[] = [];
  let [scanned_bytes, batches_a_read, turn_at] = [0, BATCHES_A_READ, TURN_BYTES];
  let next = after;
  /** The last record that is wanted; one more decides whether the list goes on behind it. */
  let end: LogKey | undefined;
  for (;;) {
    // Each batch has a record at least.
    const limit = match.all ? Math.min(batches_a_read, Math.max(4, wanted - records.length)) : batches_a_read;
    const batches = await scan(next, limit);
    const before_bytes = scanned_bytes;
    for (const batch of batches) {
      const { robot_id, received_at, first_seq } = batch;
      const json = unpack(batch.codec, batch.records);
      scanned_bytes += json.length;
      if (scanned_bytes > turn_at) {
        turn_at = scanned_bytes + TURN_BYTES;
        await turn();
      }
      if (!match.mayHold(json)) continue;
      const before = next !== undefined && isSameBatch(next, batch) ? next.seq : Infinity;
      const received = wireTime(received_at);
      for (const record of readRecords(json).toReversed()) {
        if (record.seq >= before || !match.holds(record)) continue;
        if (end !== undefined) return { records, next: end };
        records.push(toWire(record, robot_id, received));
        if (records.length === wanted) end = { robot_id, received_at, first_seq, seq: record.seq };
      }
    }
    const last = batches.at(-1);
    if (last === undefined || batches.length < limit) return { records, next: undefined };
    next = { robot_id: last.robot_id, received_at: last.received_at, first_seq: last.first_seq, seq: 0 };
    if (scanned_bytes > SCANNED_BYTES_MAX) return { records, next: end ?? next };
    if (scanned_bytes - before_bytes < READ_BYTES) batches_a_read = Math.min(BATCHES_A_READ_MAX, batches_a_read * 2);
  }
}

const isSameBatch = (a: BatchKey, b: BatchKey): boolean =>
  a.robot_id === b.robot_id && a.first_seq === b.first_seq && a.received_at.getTime() === b.received_at.getTime();

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
    for (const record of readRecords(unpack(batch.codec, batch.records)).toReversed()) {
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
