import type { Clock, Timer } from "@roamfleet/clock";
import type { LogRecord, LogSink } from "../contract.ts";

/**
 * Maximum sustained rate of one source, in records per second. At this limit, a robot with many sources still sends less data than a
 * camera.
 */
export const SOURCE_RECORDS_PER_SECOND = 1_000;
const SOURCE_BYTES_PER_SECOND = 512 * 1024;
/**
 * Maximum records that a source may write at full speed after a quiet time, such as a stack trace of all threads or the start of a large
 * program. These records fill at most a quarter of the spool.
 */
export const SOURCE_RECORDS_BURST = 20_000;
export const SOURCE_BYTES_BURST = 16 * 1024 * 1024;
/**
 * Once a record of a source has been dropped, all its records are dropped until the limits allow this many again. So there is one large gap
 * instead of many small ones.
 */
const RESUME_RECORDS = 500;
const RESUME_BYTES = 256 * 1024;
/** Maximum rate of one source. */
export interface LogLimits {
  records_per_second: number;
  records_burst: number;
  bytes_per_second: number;
  bytes_burst: number;
  /** Maximum delay before dropped records are reported. If the source resumes earlier, its next record is preceded by the report. */
  report_after_ms: number;
}

/** The limits of each source, which also apply to sources without a rule in the robot's config file. */
export const SOURCE_LIMITS: LogLimits = {
  records_per_second: SOURCE_RECORDS_PER_SECOND,
  records_burst: SOURCE_RECORDS_BURST,
  bytes_per_second: SOURCE_BYTES_PER_SECOND,
  bytes_burst: SOURCE_BYTES_BURST,
  report_after_ms: 1_000,
};
/** Maximum sources with a separate rate limit. All further sources share one. */
export const SOURCES_MAX = 1_000;
const OTHERS = "others";
/** Size in bytes that a record is assumed to have besides its message. */
const RECORD_BYTES = 128;

interface Bucket {
  source: string;
  records: number;
  bytes: number;
  at_ms: number;
  dropped: number;
}

/**
 * Rate limiter that keeps one noisy source from filling the shared spool. Each source has its own rate and burst. Records over the limit
 * are dropped; a later record reports the source and how many were dropped.
 */
export class LogRateLimiter implements LogSink {
  readonly #sink: LogSink;
  readonly #clock: Clock;
  readonly #limits: LogLimits;
  readonly #buckets = new Map<string, Bucket>();
  #report_timer: Timer | undefined;

  constructor(sink: LogSink, clock: Clock, limits = SOURCE_LIMITS) {
    this.#sink = sink;
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Sources with dropped records that were not reported yet. */
  get dropping(): string[] {
    return Array.from(this.#buckets.values(), ({ dropped, source }) => (dropped > 0 ? source : "")).filter((source) => source !== "");
  }

  /**
   * Writes or drops a record. `at_ms`: the time of the record in milliseconds, for the rate limit; all calls for a source must use the same
   * clock (default: monotonic). Pass the record's own time if records are read late; otherwise an hour of records would count as one burst.
   * `source`: the source whose rate limit applies (default: the record's source).
   */
  write(record: LogRecord, at_ms = this.#clock.monotonic(), source = record.source): void {
    const bucket = this.#bucketOf(source, at_ms);
    this.#refill(bucket, at_ms);
    const bytes = record.message.length + RECORD_BYTES;
    const resumed = bucket.dropped === 0 || this.#mayResume(bucket);
    if (!resumed || bucket.records < 1 || bucket.bytes < Math.min(bytes, this.#limits.bytes_burst)) return this.drop(source, 1, at_ms);
    this.#report(bucket);
    bucket.records -= 1;
    bucket.bytes -= bytes;
    this.#sink.write(record);
  }

  /** Returns whether the source may write now. A caller that can read its records later should wait until then. */
  hasRoom(source: string, at_ms = this.#clock.monotonic()): boolean {
    const bucket = this.#bucketOf(source, at_ms);
    this.#refill(bucket, at_ms);
    return this.#mayResume(bucket);
  }

  #mayResume({ records, bytes }: Bucket): boolean {
    return records >= Math.min(RESUME_RECORDS, this.#limits.records_burst / 2) && bytes >= RESUME_BYTES;
  }

  /** Counts records of the source that the caller has dropped. */
  drop(source: string, count: number, at_ms = this.#clock.monotonic()): void {
    this.#bucketOf(source, at_ms).dropped += count;
    this.#report_timer ??= this.#clock.setTimer(this.#limits.report_after_ms, () => {
      this.#report_timer = undefined;
      this.reportDrops();
    });
  }

  reportDrops(): void {
    for (const bucket of this.#buckets.values()) this.#report(bucket);
  }

  close(): void {
    this.#report_timer?.cancel();
    this.reportDrops();
  }

  #report(bucket: Bucket): void {
    if (bucket.dropped === 0) return;
    const { dropped: count, source } = bucket;
    const { records_per_second, bytes_per_second } = this.#limits;
    bucket.dropped = 0;
    this.#sink.write({
      level: "warn",
      source: "roamfleet",
      message: `${count} records of ${source} dropped: it writes more than ${records_per_second} records or ${bytes_per_second} bytes a second`,
      fields: { gap: { count }, source },
    });
  }

  #bucketOf(source: string, at_ms: number): Bucket {
    const known = this.#buckets.get(source);
    if (known !== undefined) return known;
    if (this.#buckets.size >= SOURCES_MAX) this.#evictIdle(at_ms);
    if (this.#buckets.size >= SOURCES_MAX && source !== OTHERS) return this.#bucketOf(OTHERS, at_ms);
    const { records_burst: records, bytes_burst: bytes } = this.#limits;
    const bucket = { source, records, bytes, at_ms, dropped: 0 };
    this.#buckets.set(source, bucket);
    return bucket;
  }

  /** Evicts sources that may write a full burst, since a new source has the same limits. */
  #evictIdle(at_ms: number): void {
    const { records_burst, bytes_burst } = this.#limits;
    for (const bucket of this.#buckets.values()) {
      this.#refill(bucket, at_ms);
      if (bucket.dropped === 0 && bucket.records >= records_burst && bucket.bytes >= bytes_burst) this.#buckets.delete(bucket.source);
    }
  }

  #refill(bucket: Bucket, at_ms: number): void {
    const { records_per_second, records_burst, bytes_per_second, bytes_burst } = this.#limits;
    const seconds = Math.max(0, at_ms - bucket.at_ms) / 1_000;
    // If the clock was set back, continue from the new time.
    bucket.at_ms = at_ms;
    bucket.records = Math.min(records_burst, bucket.records + seconds * records_per_second);
    bucket.bytes = Math.min(bytes_burst, bucket.bytes + seconds * bytes_per_second);
  }
}
