import type { LogLevel, LogRecordBody } from "@roamfleet/protocol/link";
import { LOG_BUCKETS_MAX, type LogHistogram } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { limitRunning } from "../../kernel/limit-running.ts";
import { wireTime } from "../../kernel/time.ts";
import { yieldToEventLoop } from "../../kernel/yield.ts";
import { readRecords, unpack } from "./codec.ts";
import { isSameBatch, type LogFilter, type LogKey, LogMatch } from "./read.ts";
import { type BatchRow, CLOCK_AHEAD_MS_MAX } from "./store.ts";
import { type RobotFilter, searchedBatches } from "./store-search.ts";

/** Maximum concurrent searches of one org on one server. A page of the dashboard runs two: the records and the histogram. */
export const SEARCHES_MAX = 8;
/** Maximum JSON that one request decompresses, and maximum time that it takes. Beyond either, it returns a cursor. */
export const SEARCHED_BYTES_MAX = 32 * 1024 * 1024;
const SEARCH_MS_MAX = 2_000;
/** Amount of JSON that is searched before yielding to the event loop. */
const TURN_BYTES = 512 * 1024;

/** Number of batches in the first read and the maximum. While reads return little JSON, each requests twice as many batches. */
const BATCHES_A_READ = 64;
const BATCHES_A_READ_MAX = 512;
const READ_BYTES = 1024 * 1024;
/**
 * Period of receive times that one statement reads: the first, the factor, and the maximum. One statement may read the rows of all robots
 * of the period, so the maximum bounds its time.
 */
const FIRST_WINDOW_MS = 4_000;
const WINDOW_GROWTH = 8;
const WINDOW_MS_MAX = 6 * 3_600_000;
/** After a slower statement, the period shrinks: it may have read many rows that do not match. */
const STATEMENT_MS_MAX = 200;
const DAY_MS = 86_400_000;

export const PERIOD_MS_DEFAULT = 3_600_000;

export const limitSearches = limitRunning("log searches", SEARCHES_MAX);

export type SearchFilter = LogFilter & { since: Date };

export interface SearchEnd {
  /** The cursor for older records; undefined if the whole period was searched. */
  next: LogKey | undefined;
  /** Set if a limit ended the search: batches received before this time were not searched. */
  searched_back_to: Date | undefined;
}

/**
 * Calls `visit` for the matching records, newest first, starting at the cursor `after`. Ends if `visit` returns false; the cursor then
 * starts with that record. Each statement uses a connection only while it reads at most BATCHES_A_READ_MAX batches.
 */
export async function search(
  plane: Pick<Plane, "clock" | "settings">,
  db: Db,
  caller: Caller,
  { robots, filter, after }: { robots: RobotFilter; filter: SearchFilter; after: LogKey | undefined },
  visit: (record: LogRecordBody, batch: BatchRow) => boolean,
): Promise<SearchEnd> {
  const { clock } = plane;
  const match = new LogMatch(filter);
  const deadline = clock.monotonic() + SEARCH_MS_MAX;
  const now = clock.now().getTime();
  const floor = floorOf(plane, filter.since, now);
  let [next, window_ms, limit] = [after, FIRST_WINDOW_MS, BATCHES_A_READ];
  let [bytes, turn_at] = [0, TURN_BYTES];
  for (;;) {
    const not_before = Math.max(floor, Math.min(next?.received_at.getTime() ?? now, now) - window_ms);
    const began = clock.monotonic();
    const batches = await searchedBatches(db, caller, robots, filter, { from: next, not_before: new Date(not_before), limit });
    const is_slow = clock.monotonic() - began > STATEMENT_MS_MAX;
    const bytes_before = bytes;
    for (const batch of batches) {
      const start = keyOf(batch, next !== undefined && isSameBatch(next, batch) ? next.seq : Number.MAX_SAFE_INTEGER);
      // The first batch is always searched, so that each request makes progress.
      if (bytes > 0 && (bytes > SEARCHED_BYTES_MAX || clock.monotonic() > deadline))
        return { next: start, searched_back_to: batch.received_at };
      const json = unpack(batch);
      bytes += json.length;
      if (bytes > turn_at) {
        turn_at = bytes + TURN_BYTES;
        await yieldToEventLoop();
      }
      if (!match.mayMatch(json)) continue;
      for (const record of readRecords(json).toReversed()) {
        if (record.seq < start.seq && match.matches(record) && !visit(record, batch)) {
          return { next: keyOf(batch, record.seq + 1), searched_back_to: undefined };
        }
      }
    }
    const last = batches.at(-1);
    if (last !== undefined && batches.length === limit) {
      next = keyOf(last, 0);
      window_ms = Math.max(FIRST_WINDOW_MS, window_ms / 2);
    } else if (not_before === floor) return { next: undefined, searched_back_to: undefined };
    else {
      // No robot has this id, so the next read starts with the batches received before `not_before`.
      next = { received_at: new Date(not_before), robot_id: "", first_seq: 0, seq: 0 };
      window_ms = is_slow ? Math.max(FIRST_WINDOW_MS, window_ms / WINDOW_GROWTH) : Math.min(WINDOW_MS_MAX, window_ms * WINDOW_GROWTH);
    }
    if (clock.monotonic() > deadline) return { next, searched_back_to: next.received_at };
    if (bytes - bytes_before < READ_BYTES) limit = Math.min(BATCHES_A_READ_MAX, limit * 2);
  }
}

const keyOf = ({ robot_id, received_at, first_seq }: BatchRow, seq: number): LogKey => ({ robot_id, received_at, first_seq, seq });

/** Returns the earliest receive time to search, in milliseconds. Earlier batches have no record of the period, or were deleted. */
function floorOf({ settings }: Pick<Plane, "settings">, since: Date, now: number): number {
  const days = settings.limits.log_retention_days;
  return Math.max(since.getTime() - CLOCK_AHEAD_MS_MAX, days > 0 ? now - (days + 1) * DAY_MS : -Infinity);
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400];
const DAY_S = 86_400;

/** Returns the width of the buckets of a period, in seconds. Buckets start at multiples of it, so one more bucket may be touched. */
export function bucketSeconds(since: Date, until: Date): number {
  const least = (until.getTime() - since.getTime()) / 1_000 / (LOG_BUCKETS_MAX - 1);
  return STEPS_S.find((step) => step >= least) ?? Math.ceil(least / DAY_S) * DAY_S;
}

/** Counts records by time bucket and level. */
export class Histogram {
  readonly #step_ms: number;
  readonly #until_ms: number;
  readonly #counts = new Map<number, Record<LogLevel, number>>();

  constructor(bucket_seconds: number, until: Date) {
    this.#step_ms = bucket_seconds * 1_000;
    this.#until_ms = until.getTime() - 1;
  }

  /** Counts a record. A record of the future, from a robot with a wrong clock, is in the last bucket. */
  add({ at, level }: LogRecordBody): void {
    const bucket = Math.floor(Math.min(Date.parse(at), this.#until_ms) / this.#step_ms);
    let counts = this.#counts.get(bucket);
    if (counts === undefined) this.#counts.set(bucket, (counts = { trace: 0, debug: 0, info: 0, warn: 0, error: 0, fatal: 0 }));
    counts[level] += 1;
  }

  get buckets(): LogHistogram["buckets"] {
    return Array.from(this.#counts, ([bucket, counts]) => ({ at: wireTime(new Date(bucket * this.#step_ms)), counts })).toSorted((a, b) =>
      a.at < b.at ? -1 : 1,
    );
  }
}
