import { yieldToEventLoop } from "../../kernel/yield.ts";
import type { Clock } from "@roamfleet/clock";
import { LOG_LEVELS, type LogLevel, type LogRecordBody } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { wireTime } from "../../kernel/time.ts";
import { readRecords, toLines, toWire, unpack } from "./codec.ts";
import { batchesAfter, type BatchFilter, type BatchKey, type BatchRow, fleetBatches, type LogPosition, robotBatches } from "./store.ts";

export interface LogFilter extends BatchFilter {
  level: LogLevel | undefined;
  source: string | undefined;
  /** Text that the message contains, case-insensitive. */
  q: string | undefined;
}

/** Characters that JSON can encode in several ways. Raw JSON cannot be searched for text that contains them. */
const WRITTEN_OTHERWISE = /["\\/\p{Cc}]/u;

/** Decides which records match a filter. */
export class LogMatch {
  readonly #from: string | undefined;
  readonly #to: string | undefined;
  readonly #levels: ReadonlySet<string> | undefined;
  readonly #source: string | undefined;
  readonly #wanted: string | undefined;
  readonly #needle: string | undefined;

  constructor({ since, until, level, source, q }: LogFilter) {
    // Stored times all have the same format, so they can be compared as text.
    this.#from = since?.toISOString();
    this.#to = until?.toISOString();
    this.#levels = level === undefined || level === LOG_LEVELS[0] ? undefined : new Set(LOG_LEVELS.slice(LOG_LEVELS.indexOf(level)));
    this.#source = source;
    this.#wanted = q?.toLowerCase();
    // The longest part of the text that is not escaped in JSON. The raw JSON is searched for it.
    this.#needle = this.#wanted?.split(WRITTEN_OTHERWISE).toSorted((a, b) => b.length - a.length)[0];
  }

  /** Whether the filter is empty, so that all records match. */
  get all(): boolean {
    return [this.#from, this.#to, this.#levels, this.#source, this.#wanted].every((part) => part === undefined);
  }

  /**
   * Returns false if the JSON of a flush cannot contain a matching record, and true if it may. Searching the text costs half as much as
   * parsing the records.
   */
  mayMatch(json: string): boolean {
    if (this.#levels !== undefined && !Array.from(this.#levels, (level) => `"${level}"`).some((level) => json.includes(level)))
      return false;
    if (this.#source !== undefined && !WRITTEN_OTHERWISE.test(this.#source) && !json.includes(`"${this.#source}"`)) return false;
    return this.#needle === undefined || this.#needle === "" || json.toLowerCase().includes(this.#needle);
  }

  matches(record: Pick<LogRecordBody, "at" | "level" | "source" | "message">): boolean {
    return (
      (this.#from === undefined || record.at >= this.#from) &&
      (this.#to === undefined || record.at < this.#to) &&
      (this.#levels === undefined || this.#levels.has(record.level)) &&
      (this.#source === undefined || record.source === this.#source) &&
      (this.#wanted === undefined || record.message.toLowerCase().includes(this.#wanted))
    );
  }
}

/** Number of batches in the first read. If a read returns less than READ_BYTES of JSON, the next one requests twice as many batches. */
const BATCHES_A_READ = 64;
const BATCHES_A_READ_MAX = 512;
const READ_BYTES = 1024 * 1024;
/** Maximum JSON that one request searches. Beyond it, the request returns the records found so far, and a cursor. */
const SCANNED_BYTES_MAX = 32 * 1024 * 1024;
/** Amount of JSON that is searched before yielding to the event loop. */
const TURN_BYTES = 512 * 1024;

/**
 * A cursor in a log that is read from new to old. The next page starts with the records of this batch before `seq`, and continues with all
 * older batches.
 */
export interface LogKey extends BatchKey {
  seq: number;
}

/** Reads batches, newest first, starting with the batch `from`. If the result has fewer than `limit` batches, there are no older ones. */
export type BatchScan = (from: BatchKey | undefined, limit: number) => Promise<BatchRow[]>;

interface LogScan {
  /** The matching records, newest first. */
  records: LogRecord[];
  /** The cursor for older records; undefined if there are none. */
  next: LogKey | undefined;
}

/** Searches batches for at most `wanted` matching records, newest first, starting at the cursor `after`. */
export async function scanLogs(scan: BatchScan, match: LogMatch, after: LogKey | undefined, wanted: number): Promise<LogScan> {
  const records: LogRecord[] = [];
  let [scanned_bytes, batches_a_read, turn_at] = [0, BATCHES_A_READ, TURN_BYTES];
  let next = after;
  /** Key of the last record of a full page. It becomes the cursor if a further record matches. */
  let end: LogKey | undefined;
  for (;;) {
    // Each batch has at least one record, so without a filter a read needs no more batches than wanted records.
    const limit = match.all ? Math.min(batches_a_read, Math.max(4, wanted - records.length)) : batches_a_read;
    const batches = await scan(next, limit);
    const before_bytes = scanned_bytes;
    for (const batch of batches) {
      const { robot_id, received_at, first_seq } = batch;
      const json = unpack(batch);
      scanned_bytes += json.length;
      if (scanned_bytes > turn_at) {
        turn_at = scanned_bytes + TURN_BYTES;
        await yieldToEventLoop();
      }
      if (!match.mayMatch(json)) continue;
      const before = next !== undefined && isSameBatch(next, batch) ? next.seq : Infinity;
      const received = wireTime(received_at);
      for (const record of readRecords(json).toReversed()) {
        if (record.seq >= before || !match.matches(record)) continue;
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

/** Whether two keys are of the same batch. */
export const isSameBatch = (a: BatchKey, b: BatchKey): boolean =>
  a.robot_id === b.robot_id && a.first_seq === b.first_seq && a.received_at.getTime() === b.received_at.getTime();

interface LogTail {
  /** The matching records, oldest first. */
  records: LogRecord[];
  /** The end position of the log; later records have later positions. Undefined if the log is empty. */
  end: LogPosition | undefined;
}

/** Returns the last `count` matching records of a robot, which a new follower gets before live records. */
export async function readTail(db: Db, org_id: string, robot_id: string, match: LogMatch, count: number): Promise<LogTail> {
  const nothing = { since: undefined, until: undefined };
  let head: BatchRow | undefined;
  const scan: BatchScan = async (from, limit) => {
    const batches = await robotBatches(db, org_id, robot_id, nothing, from, limit);
    head ??= batches[0];
    return batches;
  };
  const { records } = await scanLogs(scan, match, undefined, count);
  return { records: records.toReversed(), end: head && endOf(head) };
}

const endOf = ({ received_at, last_seq }: BatchRow): LogPosition => ({ received_at: received_at.toISOString(), seq: last_seq });

/** Maximum batches in one call of `readBehind`. */
const BATCHES_BEHIND = 32;

interface LogsBehind {
  batches: { end: LogPosition; lines: string[] }[];
  /** Whether more batches follow. */
  more: boolean;
}

/** Returns the matching records stored after the position `behind`, as JSON, grouped by batch. The oldest batch is first. */
export async function readBehind(
  db: Db,
  org_id: string,
  robot_id: string,
  behind: LogPosition | undefined,
  match: LogMatch,
): Promise<LogsBehind> {
  const nothing = { since: undefined, until: undefined };
  const key = behind && { robot_id, received_at: new Date(behind.received_at), first_seq: behind.seq };
  const batches = await batchesAfter(db, org_id, robot_id, nothing, key, BATCHES_BEHIND);
  return {
    more: batches.length === BATCHES_BEHIND,
    batches: batches.map((batch) => {
      const json = unpack(batch);
      const records = match.mayMatch(json) ? readRecords(json).filter((record) => match.matches(record)) : [];
      return { end: endOf(batch), lines: toLines(records, robot_id, wireTime(batch.received_at)) };
    }),
  };
}

const FIRST_WINDOW_MS = 4_000;
const WINDOW_GROWTH = 8;
/** Once a time window would be wider than this, it extends to the start of the log. */
const WINDOW_MS_MAX = 40 * 86_400_000;

/**
 * Searches the batches of a fleet from new to old, in growing time windows. For a thousand robots that log each second, it reads the
 * batches of a few seconds. For a fleet without logs for a week, it needs a few more queries. Returns no batch received before
 * `received_from`.
 */
export function fleetScan(db: Db, clock: Clock, org_id: string, fleet_id: string, filter: BatchFilter, received_from?: Date): BatchScan {
  let window_ms = FIRST_WINDOW_MS;
  return async (from, limit) => {
    const end = Math.min(from?.received_at.getTime() ?? Infinity, clock.now().getTime());
    for (;;) {
      const reaches = window_ms > WINDOW_MS_MAX ? -Infinity : end - window_ms;
      const is_all = reaches <= (received_from?.getTime() ?? -Infinity);
      const not_before = is_all ? received_from : new Date(reaches);
      const batches = await fleetBatches(db, org_id, fleet_id, filter, from, not_before, limit);
      if (batches.length === limit || is_all) return batches;
      window_ms *= WINDOW_GROWTH;
    }
  };
}
