import type { LogRecordBody, Logs } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import { jsonOfRecords, type Session } from "../../link/index.ts";
import { boundFields, pack } from "./codec.ts";
import { publishBatch } from "./follow.ts";
import { findPosition, insertBatch, insertBatches, type NewBatch } from "./store.ts";
import { countStored } from "./usage.ts";

/** The cached end position of the log of a robot, for one connection. If the cached position is stale, storing the next flush fails. */
interface Taken {
  seq: number;
  received_at: number;
}

const taken_by_session = new WeakMap<Session, Taken>();
/**
 * Maximum attempts to store a flush. An attempt fails if another connection of the robot has moved the log's position. Each attempt reads
 * the position again.
 */
const ATTEMPTS_MAX = 5;
/**
 * Maximum by which a server's clock may be behind the clock of the robot's previous server. Up to this difference, the receive times of a
 * robot's batches never decrease, so that a reader that resumes after a batch misses none. If the difference is larger, the times decrease
 * once.
 */
const CLOCK_BACK_MS_MAX = 24 * 3_600_000;

/**
 * Maximum flushes per statement, and maximum concurrent statements, each for a different org. Few statements are allowed, so that database
 * connections are left for reads.
 */
const BATCH_FLUSHES_MAX = 64;
const BATCHES_AT_ONCE = 3;

/**
 * Batches the writes: flushes that arrive during a write are stored by the next one. Otherwise the rate of commits would limit the server.
 */
const batcherOf = planeState(
  ({ db, db_errors }: Plane) =>
    new KeyedBatcher<NewBatch, boolean>({
      // No delay: a robot that sends a backlog sends its next flush only after the previous one is stored.
      min_interval_ms: 0,
      items_max: BATCH_FLUSHES_MAX,
      concurrency_max: BATCHES_AT_ONCE,
      uniqueBy: ({ robot_id }) => robot_id,
      affectsAll: (error) => db_errors.isOutage(error),
      work: async (org_id, batches) => {
        const [first] = batches;
        const own = db.forOrg(org_id);
        if (batches.length === 1 && first !== undefined) return [(await insertBatch(own, first)) > 0];
        const stored = await insertBatches(own, org_id, batches);
        return batches.map(({ robot_id }) => stored.has(robot_id));
      },
    }),
);

/**
 * Stores a flush of a robot's log exactly once, and passes it to followers. Acknowledges it when the robot's rate limit allows. Drops
 * records up to the stored position, because they are duplicates. Sequence numbers may have gaps.
 */
export async function ingestLogs(plane: Plane, session: Session, message: Logs): Promise<void> {
  const { org_id, robot_id, hello } = session;
  const pace = logPaceOf(plane);
  const given = boundedRecords(plane, message.records);
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    const taken = taken_by_session.get(session) ?? (await readTaken(plane, session));
    const now = plane.clock.now().getTime();
    const received_at = new Date(Math.max(now, Math.min(taken.received_at, now + CLOCK_BACK_MS_MAX)));
    const { records, first_at, last_at, as_given } = newRecords(given, taken.seq, received_at);
    const [first, last] = [records[0], records.at(-1)];
    if (first === undefined || last === undefined)
      return pace.acknowledge(session, { after_seq: taken.seq, last_seq: taken.seq, bytes: 0 });
    // Ignore a flush of a replaced connection that would start a new log. The connection may belong to another machine with another spool,
    // which must not reset the position.
    if (taken.seq === 0 && (plane.link.session(robot_id) ?? session) !== session) return;
    const packed = pack(records, as_given ? jsonOfRecords(records) : undefined);
    const is_stored = await batcherOf(plane).add(org_id, {
      org_id,
      robot_id,
      outbox_id: hello.outbox_id,
      before: taken.seq,
      first_seq: first.seq,
      last_seq: last.seq,
      received_at,
      first_at: new Date(first_at),
      last_at: new Date(last_at),
      record_count: records.length,
      ...packed,
    });
    if (!is_stored) {
      taken_by_session.delete(session);
      continue;
    }
    taken_by_session.set(session, { seq: last.seq, received_at: received_at.getTime() });
    const json = jsonOfRecords(given) ?? jsonOfRecords(message.records);
    const bytes = json?.length ?? JSON.stringify(given).length;
    pace.acknowledge(session, { after_seq: first.seq - 1, last_seq: last.seq, bytes });
    plane.metrics.log_records.inc(records.length);
    countStored(plane, org_id, robot_id, received_at, packed.packed.length);
    const before = { received_at: new Date(taken.received_at).toISOString(), seq: taken.seq };
    publishBatch(plane, session, received_at.toISOString(), records, before);
    return;
  }
  throw new Error("the log of a robot was changed by other servers during every attempt to store records");
}

/**
 * Replaces `fields` that are nested too deeply. If it replaced any, returns a copy of the array, so that the received JSON is not used for
 * the changed records. Otherwise returns the same array.
 */
function boundedRecords({ metrics }: Plane, records: LogRecordBody[]): LogRecordBody[] {
  let replaced = 0;
  for (const record of records) if (boundFields(record)) replaced += 1;
  if (replaced === 0) return records;
  metrics.log_fields_replaced.inc(replaced);
  return [...records];
}

async function readTaken({ db }: Plane, session: Session): Promise<Taken> {
  const { org_id, robot_id, hello } = session;
  const position = await findPosition(db.forOrg(org_id), org_id, robot_id);
  const is_same_spool = position?.outbox_id === hello.outbox_id;
  const taken = {
    seq: is_same_spool ? position.seq : 0,
    // Batches with equal times are ordered by sequence number. In a new spool the numbers start again, so its first batch needs a later
    // time.
    received_at: position === undefined ? 0 : position.updated_at.getTime() + (is_same_spool ? 0 : 1),
  };
  taken_by_session.set(session, taken);
  return taken;
}

const WIRE_TIME_CHARACTERS = 24;

/**
 * Returns the records after `position` in ascending order, and their earliest and latest time in milliseconds. Converts times to RFC 3339
 * in UTC with milliseconds, and replaces invalid times by the time of receipt. `as_given` is true if no record was dropped or changed,
 * which is the usual case.
 */
function newRecords(
  given: LogRecordBody[],
  position: number,
  received_at: Date,
): { records: LogRecordBody[]; first_at: number; last_at: number; as_given: boolean } {
  let [first_at, last_at, seq] = [Infinity, -Infinity, position];
  let kept: LogRecordBody[] | undefined;
  let as_given = true;
  for (const [i, record] of given.entries()) {
    if (record.seq <= seq || !Number.isSafeInteger(record.seq)) {
      kept ??= given.slice(0, i);
      as_given = false;
      continue;
    }
    seq = record.seq;
    let at = Date.parse(record.at);
    if (record.at.length !== WIRE_TIME_CHARACTERS || !record.at.endsWith("Z") || Number.isNaN(at)) {
      const read = new Date(Number.isNaN(at) ? received_at : at).toISOString();
      record.at = read.length === WIRE_TIME_CHARACTERS ? read : received_at.toISOString();
      at = Date.parse(record.at);
      as_given = false;
    }
    if (at < first_at) first_at = at;
    if (at > last_at) last_at = at;
    kept?.push(record);
  }
  return { records: kept ?? given, first_at, last_at, as_given };
}

/** Bytes that each flush costs in the rate limit in addition to its records, so that many small flushes are limited too. */
const FLUSH_BYTES = 1_024;
/**
 * Interval of partial acknowledgements while the full acknowledgement of a flush is delayed. They acknowledge as many records as the
 * robot's rate allows. An agent that gets no acknowledgement for 30 s sends its records again.
 */
const ACK_EVERY_MS = 1_000;
/**
 * Unacknowledged bytes at which a robot's connection is paused. An agent waits for acknowledgements after at most 1 MiB, so a robot that
 * reaches this size does not wait.
 */
const OWED_BYTES_MAX = 4 * 1024 * 1024;

/** The stored but unacknowledged records of a session. They are acknowledged evenly between `since` and `due`. */
interface Unacknowledged {
  acked_seq: number;
  last_seq: number;
  /** Milliseconds of the monotonic clock, like `due`. */
  since: number;
  due: number;
}

/**
 * Limits the log rate of each robot. A flush is stored on receipt, but acknowledged only when the robot's rate allows. An agent sends at
 * most 1 MiB ahead of the acknowledgements, so further records wait in the spool on the robot. The server keeps only a few numbers for each
 * robot. If a robot does not wait for acknowledgements, its connection is paused.
 */
class LogPace {
  readonly #clock: Plane["clock"];
  readonly #rate: RateLimit;
  readonly #owed_ms_max: number;
  readonly #delayed: Plane["metrics"]["log_acks_delayed"];
  readonly #waiting = new WeakMap<Session, Unacknowledged>();

  constructor({ clock, settings, metrics }: Pick<Plane, "clock" | "settings" | "metrics">) {
    const { log_bytes_per_robot_per_second: per_second, log_burst_bytes_per_robot: burst } = settings.limits;
    this.#clock = clock;
    this.#delayed = metrics.log_acks_delayed;
    this.#owed_ms_max = (OWED_BYTES_MAX * 1_000) / per_second;
    this.#rate = new RateLimit(clock, "logs", { per_minute: per_second * 60, burst });
  }

  /**
   * Acknowledges the stored records up to `last_seq`, immediately or when the robot's rate allows. The records after `after_seq` are new,
   * and have `bytes` bytes.
   */
  acknowledge(session: Session, { after_seq, last_seq, bytes }: { after_seq: number; last_seq: number; bytes: number }): void {
    const owed_ms = this.#rate.owe(session.robot_id, bytes + FLUSH_BYTES);
    if (owed_ms > this.#owed_ms_max) session.pauseReading(owed_ms - this.#owed_ms_max);
    const now = this.#clock.monotonic();
    const waiting = this.#waiting.get(session);
    if (waiting !== undefined) {
      Object.assign(waiting, { acked_seq: paidFor(waiting, now), last_seq, since: now, due: now + owed_ms });
    } else if (owed_ms > 0) {
      this.#delayed.inc();
      this.#waiting.set(session, { acked_seq: after_seq, last_seq, since: now, due: now + owed_ms });
      this.#acknowledgeLater(session);
    } else session.send({ type: "log_ack", seq: last_seq });
  }

  #acknowledgeLater(session: Session): void {
    const waiting = this.#waiting.get(session);
    if (waiting === undefined) return;
    const wait_ms = Math.min(ACK_EVERY_MS, Math.max(1, waiting.due - this.#clock.monotonic()));
    this.#clock.setTimer(wait_ms, () => {
      const now = this.#clock.monotonic();
      if (now >= waiting.due) this.#waiting.delete(session);
      const is_open = session.send({ type: "log_ack", seq: paidFor(waiting, now) });
      if (is_open) this.#acknowledgeLater(session);
      else this.#waiting.delete(session);
    });
  }
}

/** Returns the number of the last record that may be acknowledged at the time `now`. Interpolates linearly between `since` and `due`. */
function paidFor({ acked_seq, last_seq, since, due }: Unacknowledged, now: number): number {
  if (now >= due) return last_seq;
  return acked_seq + Math.floor(((last_seq - acked_seq) * (now - since)) / (due - since));
}

const logPaceOf = planeState((plane: Plane) => new LogPace(plane));
