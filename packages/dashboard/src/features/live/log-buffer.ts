import type { LogRecord } from "@roamfleet/protocol/routes";

/** Maximum records of a page: about 20 MB of usual lines. */
export const LOG_RECORDS_MAX = 5_000;
/** Records are trimmed in batches of this size. */
const TRIM_SLACK = 250;
/** Maximum records that wait while the view is paused. */
export const LOG_WAITING_MAX = 2_000;

interface LogRow {
  /** Identifies the row permanently. Newer rows have larger keys. */
  key: number;
  record: LogRecord;
}

/** The content of a log view: a bounded number of unique rows in order of arrival. */
export interface LogBuffer {
  rows: readonly LogRow[];
  /** Number of records that arrived while the view was paused, and are not in `rows` yet. */
  waiting: number;
  /** How many of the waiting records were discarded. */
  not_kept: number;
  /** Whether the newest rows were dropped to make room for older ones, so that following the log requires a reload. */
  is_cut: boolean;
  /** Sources seen so far, for the filter. */
  sources: readonly string[];
}

/** Time and sequence number of the newest record received from one robot. */
interface Seen {
  received_at: string;
  seq: number;
}

/**
 * The stream of several robots resumes this much earlier than the newest record: robots' batches are stored concurrently, so an older
 * record may arrive later.
 */
const OVERLAP_MS = 5_000;
const SOURCES_MAX = 100;

/** Tracks received records per robot, for deduplication. */
function createSeen() {
  const last_of = new Map<string, Seen>();
  let newest = "";
  return {
    /** Receipt time of the newest record; empty if none. */
    get newest(): string {
      return newest;
    },
    isNew({ robot_id, received_at, seq, fields }: LogRecord): boolean {
      // Always show gap records. They may come from the server, and then have no position in the robot's log.
      if (fields["gap"] !== undefined) return true;
      const last = last_of.get(robot_id);
      if (last !== undefined && (received_at < last.received_at || (received_at === last.received_at && seq <= last.seq))) return false;
      last_of.set(robot_id, { received_at, seq });
      if (received_at > newest) newest = received_at;
      return true;
    },
  };
}

/** Creates the buffer of a log; `many`: for several robots. */
export function createLogBuffer({ many }: { many: boolean }) {
  let rows: LogRow[] = [];
  let waiting: LogRecord[] = [];
  let [not_kept, next_key, first_key] = [0, 0, -1];
  let [is_cut, is_held] = [false, false];
  const seen = createSeen();
  let sources: string[] = [];
  let snapshot: LogBuffer | undefined;

  const noteSource = (source: string): void => {
    if (sources.length < SOURCES_MAX && !sources.includes(source)) sources = [...sources, source].toSorted();
  };
  const append = (records: readonly LogRecord[]): void => {
    rows.push(...records.map((record) => ({ key: next_key++, record })));
    if (rows.length > LOG_RECORDS_MAX + TRIM_SLACK) rows = rows.slice(-LOG_RECORDS_MAX);
  };
  const changed = (): void => void (snapshot = undefined);

  return {
    /** Returns the current content. The object stays the same until the content changes. */
    read: (): LogBuffer => (snapshot ??= { rows: [...rows], waiting: waiting.length + not_kept, not_kept, is_cut, sources }),
    /** The position at which an interrupted stream resumes; undefined without records. */
    get after(): string | undefined {
      if (seen.newest === "") return undefined;
      return many ? new Date(Date.parse(seen.newest) - OVERLAP_MS).toISOString() : seen.newest;
    },
    /** Adds new records, oldest first; skips duplicates. */
    add(records: readonly LogRecord[]): void {
      const fresh = records.filter((record) => seen.isNew(record));
      if (fresh.length === 0) return;
      for (const { source } of fresh) noteSource(source);
      if (is_held || is_cut) {
        waiting.push(...fresh);
        if (waiting.length > LOG_WAITING_MAX) not_kept += waiting.splice(0, waiting.length - LOG_WAITING_MAX).length;
      } else append(fresh);
      changed();
    },
    /** Inserts older records, which are sorted oldest first, before all others. */
    addOlder(records: readonly LogRecord[]): void {
      for (const { source } of records) noteSource(source);
      const older = records.toReversed().map((record) => ({ key: first_key--, record }));
      rows.unshift(...older.toReversed());
      if (rows.length > LOG_RECORDS_MAX) {
        rows = rows.slice(0, LOG_RECORDS_MAX);
        is_cut = true;
      }
      changed();
    },
    /** Pauses the view: new records wait until `release` is called. */
    hold(): void {
      is_held = true;
    },
    /** Shows the waiting records. Returns false if rows in between are missing, so that a reload is required. */
    release(): boolean {
      is_held = false;
      if (is_cut || not_kept > 0) return false;
      append(waiting);
      waiting = [];
      changed();
      return true;
    },
  };
}

export type LogStore = ReturnType<typeof createLogBuffer>;
