import type { LogRecord } from "@roamfleet/protocol/routes";

/** Records that a page holds at most: about 20 MB of usual lines. */
export const LOG_RECORDS_MAX = 5_000;
/** Trimmed by so many at a time, not at each record. */
const TRIM_SLACK = 250;
/** Records that wait while somebody reads further up. */
export const LOG_WAITING_MAX = 2_000;

export interface LogRow {
  /** Grows with time; stays the same for as long as the row is there. */
  key: number;
  record: LogRecord;
}

/** What a log view shows: rows in the order in which they came, each once, bounded. */
export interface LogBuffer {
  rows: readonly LogRow[];
  /** Came while it was held; not among the rows yet. */
  waiting: number;
  /** Of those so many were not kept. */
  not_kept: number;
  /** The newest rows were given up for older ones: to follow again it has to be read anew. */
  is_cut: boolean;
  /** Sources that were seen, for choosing. */
  sources: readonly string[];
}

/** How far a robot's log was seen. */
interface Seen {
  received_at: string;
  seq: number;
}

/** Flushes of several robots are stored side by side: one may come after a newer one. */
const OVERLAP_MS = 5_000;
const SOURCES_MAX = 100;

/** Which records were there already, robot by robot. */
function createSeen() {
  const last_of = new Map<string, Seen>();
  let newest = "";
  return {
    /** When the newest was received; empty while none was. */
    get newest(): string {
      return newest;
    },
    isNew({ robot_id, received_at, seq, fields }: LogRecord): boolean {
      // Who tells of a gap may not be the robot: it has no place among its records.
      if (fields["gap"] !== undefined) return true;
      const last = last_of.get(robot_id);
      if (last !== undefined && (received_at < last.received_at || (received_at === last.received_at && seq <= last.seq))) return false;
      last_of.set(robot_id, { received_at, seq });
      if (received_at > newest) newest = received_at;
      return true;
    },
  };
}

/** Holds the records of a log; `many`: of several robots. */
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
    /** What is shown now; the same object until something changes. */
    read: (): LogBuffer => (snapshot ??= { rows: [...rows], waiting: waiting.length + not_kept, not_kept, is_cut, sources }),
    /** Where a stream that was cut goes on; undefined while nothing came. */
    get after(): string | undefined {
      if (seen.newest === "") return undefined;
      return many ? new Date(Date.parse(seen.newest) - OVERLAP_MS).toISOString() : seen.newest;
    },
    /** Records as they come, oldest first. Those that are there already are left out. */
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
    /** Older records, oldest first, above all others. */
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
    /** What comes waits, since somebody reads. */
    hold(): void {
      is_held = true;
    },
    /** Shows what waited. Answers false when the log has to be read anew for that: rows in between are gone. */
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
