import { LOG_LEVELS } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { badRequest } from "../../kernel/fault.ts";
import { parseTime } from "../../kernel/time.ts";
import { followLogs, isBefore, isSame, type LiveBatch, LogMatch, type LogPosition, readBehind, readTail } from "../logs/index.ts";
import { CursorSender, LogCursor } from "./log-cursor.ts";
import { RecordSender } from "./record-sender.ts";
import type { StartStream, StreamOf } from "./stream-kind.ts";
import type { Viewer } from "./viewer.ts";

/** Number of stored records that a new viewer gets before live ones. */
export const STORED_RECORDS = 100;

/**
 * Prepares a stream of a robot's log. It starts with the last stored records. If the robot is not connected, the stream ends after these.
 */
export function prepareLogs(query: URLSearchParams, of: StreamOf): StartStream {
  const request = readLogRequest(query, of);
  return ({ plane }, viewer) => new LogStream(plane, viewer, request).start();
}

/** Sends the stored records of a robot's log, and then each new record, without gaps or duplicates. */
class LogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #request: LogRequest;
  readonly #sender: RecordSender;
  readonly #cursors: CursorSender;
  /** The position up to which the log was sent. */
  #end: LogPosition | undefined;
  /**
   * How live flushes (log messages of the robot) are handled. `send`: they are sent immediately. A buffer: they wait there until earlier
   * records are sent. Undefined: they are dropped, and read from the database later.
   */
  #live: "send" | FlushBuffer | undefined;

  constructor(plane: Plane, viewer: Viewer, request: LogRequest) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#request = request;
    this.#sender = new RecordSender(plane, viewer);
    const { robot_id } = viewer.admitted;
    this.#cursors = new CursorSender(plane, viewer, () => {
      // If the stream started at a time (`after`) and has sent nothing yet, its position is unknown. A cursor would point to the start of
      // the whole log.
      const is_unknown = request.after !== undefined && this.#end === undefined;
      return is_unknown || this.#sender.has_gaps ? undefined : new Map([[robot_id, this.#end]]);
    });
  }

  /** Starts the stream. Resolves when the stored records are sent. Works also if the robot is not connected. */
  async start(): Promise<void> {
    const { org_id } = this.#viewer.admitted.caller;
    const { robot_id } = this.#viewer.admitted;
    // Follow the log first, so that every record stored from now on is received.
    const end = followLogs(this.#plane, org_id, robot_id, (batch) => this.#take(batch));
    this.#viewer.onEnd = () => {
      end();
      this.#cursors.stop();
    };
    if (!this.#viewer.open) return this.#viewer.onEnd();
    const { after, resume, with_cursors } = this.#request;
    if (resume !== undefined) this.#end = resume.positionsOf([robot_id]).get(robot_id);
    else if (after === undefined) await this.#sendTail();
    await this.#catchUp(after === undefined ? this.#end : { received_at: after.toISOString(), seq: 0 });
    if (with_cursors) this.#cursors.start();
  }

  async #sendTail(): Promise<void> {
    const { caller, robot_id } = this.#viewer.admitted;
    const tail = await readTail(this.#plane.db.forOrg(caller.org_id), caller.org_id, robot_id, this.#request.match, STORED_RECORDS);
    for (const record of tail.records) await this.#viewer.send(JSON.stringify(record));
    this.#end = tail.end;
  }

  /**
   * Sends the records stored after a position, as fast as the viewer reads. Then sends the live flushes that were buffered meanwhile. If
   * the buffer overflows, reads the database again. So a slow viewer misses no record, and the buffer has a maximum size.
   */
  async #catchUp(from: LogPosition | undefined): Promise<void> {
    const { caller, robot_id } = this.#viewer.admitted;
    const db = this.#plane.db.forOrg(caller.org_id);
    while (this.#viewer.open) {
      const collected = (this.#live = new FlushBuffer());
      const read = await readBehind(db, caller.org_id, robot_id, this.#end ?? from, this.#request.match);
      if (read.more) this.#live = undefined;
      for (const { end, lines } of read.batches) {
        for (const line of lines) await this.#viewer.send(line);
        this.#end = end;
      }
      // If the buffer overflowed, read the dropped records from the database.
      if (this.#live !== collected) continue;
      this.#live = "send";
      for (const batch of collected.batches) this.#take(batch);
      return;
    }
  }

  /** Reads flushes that were stored but not received live, for example because their commit was confirmed too late. */
  #readMissed(): void {
    this.#live = undefined;
    this.#catchUp(this.#end).catch((error: unknown) => {
      this.#plane.log.error({ err: error }, "could not read the log of a robot");
      this.#viewer.close(1011, "the server could not serve the stream");
    });
  }

  #take(batch: LiveBatch): void {
    if (this.#live === "send") this.#sendBatch(batch);
    else if (this.#live?.add(batch, bytesOfBatch(batch)) === false) this.#live = undefined;
  }

  #sendBatch(batch: LiveBatch): void {
    const { received_at, last_seq: seq, before } = batch;
    // A live flush arrives shortly after it is stored, so its records may have been read from the database already.
    const follows = isSame(this.#end, before);
    if (!follows && !isBefore(this.#end, { received_at, seq })) return;
    if (!follows && this.#end !== undefined) return this.#readMissed();
    this.#end = { received_at, seq };
    const { robot_id, seqs, lines } = matchFlush(this.#request, batch);
    this.#sender.send(robot_id, seqs, lines);
  }
}

/** Returns the indexes of the records of a flush that match the request. */
const matchingIndexes = ({ match }: LogRequest, { records }: LiveBatch): number[] =>
  match.all
    ? [...records.keys()]
    : records
        .keys()
        .filter((i) => match.matches(records[i]!))
        .toArray();

/** The matching records of one flush: the records that a robot sent in one message. */
export interface MatchedFlush {
  robot_id: string;
  received_at: string;
  first_seq: number;
  seqs: readonly number[];
  /** The records with the numbers in `seqs`, as JSON. */
  lines: readonly string[];
  /**
   * Number of the last record of the flush, even if that record does not match. Undefined in flushes from older servers, and in one that
   * reports dropped records.
   */
  last_seq?: number;
  /** The position at which the flush starts. The flush has all matching records between this position and its end. */
  before?: LogPosition;
}

/** Returns the end position of a flush in the robot's log. */
export const endOfFlush = ({ received_at, last_seq }: MatchedFlush): LogPosition | undefined =>
  last_seq === undefined ? undefined : { received_at, seq: last_seq };

export function matchFlush(request: LogRequest, batch: LiveBatch): MatchedFlush {
  const { robot_id, received_at, first_seq, last_seq, before, records, lines } = batch;
  const indices = matchingIndexes(request, batch);
  const seqs = indices.map((i) => records[i]!.seq);
  return { robot_id, received_at, first_seq, last_seq, before, seqs, lines: request.match.all ? lines : indices.map((i) => lines[i]!) };
}

export const LOG_STREAM_QUERY = ["level", "source", "q", "after", "cursor"] as const;
const TEXT_CHARACTERS_MAX = 200;
const TIME = /^\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The parameters of a log stream. */
export interface LogRequest {
  match: LogMatch;
  /** If set, the stream starts with the records stored since this time, instead of the last records. For viewers that reconnect. */
  after: Date | undefined;
  /** If set, the stream continues at the positions of this cursor of an interrupted stream. */
  resume: LogCursor | undefined;
  /** Whether cursors are sent to the viewer. */
  with_cursors: boolean;
}

/**
 * Reads the query of a log stream: the filters `level`, `source` and `q` (as in the list of records), `after`, and `cursor` (empty in a
 * first request). Throws 400 for invalid values.
 */
export function readLogRequest(query: URLSearchParams, of: StreamOf): LogRequest {
  const level = LOG_LEVELS.find((one) => one === query.get("level"));
  if (query.has("level") && level === undefined) throw badRequest(`query parameter level must be one of ${LOG_LEVELS.join(", ")}`);
  const after = query.get("after");
  if (after !== null && !TIME.test(after)) throw badRequest("query parameter after must be an RFC 3339 time");
  const cursor = query.get("cursor");
  if (cursor !== null && cursor !== "" && after !== null) throw badRequest("send only one of the query parameters after and cursor");
  return {
    match: new LogMatch({ since: undefined, until: undefined, level, source: readText(query, "source"), q: readText(query, "q") }),
    after: after === null ? undefined : parseTime(after),
    resume: cursor === null || cursor === "" ? undefined : LogCursor.decode(cursor, of),
    with_cursors: cursor !== null,
  };
}

function readText(query: URLSearchParams, name: string): string | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  if (text === "" || text.length > TEXT_CHARACTERS_MAX)
    throw badRequest(`query parameter ${name} must have 1 to ${TEXT_CHARACTERS_MAX} characters`);
  return text;
}

/**
 * Size limit of the buffer for live records while stored records are still being read. Beyond it the buffered records are dropped, and
 * later read from the database instead.
 */
const BUFFERED_BYTES_MAX = 1024 * 1024;
/** Estimated memory of a record in addition to its message. */
const RECORD_BYTES = 256;

/** Estimates the memory of a flush. */
const bytesOfBatch = ({ records }: LiveBatch): number => records.reduce((sum, { message }) => sum + message.length + RECORD_BYTES, 0);

/** A bounded buffer for live flushes. They wait there until the stored records before them are sent. */
class FlushBuffer<T = LiveBatch> {
  batches: T[] = [];
  #bytes = 0;

  /** Returns false, without adding the flush, if the buffer is full. */
  add(batch: T, bytes: number): boolean {
    if (this.#bytes + bytes > BUFFERED_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.batches.push(batch);
    return true;
  }
}
