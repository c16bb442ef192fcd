import type { Clock, Timer } from "@roamfleet/clock";
import { LOG_BATCH_RECORDS_MAX, type LogLevel } from "@roamfleet/protocol/link";
import type { LogRecord } from "../contract.ts";
import type { LogSpool } from "../spool/log-spool.ts";

const LOG_BATCH_BYTES_MAX = 256 * 1024;
/** Maximum bytes sent but not yet acknowledged. */
const LOG_IN_FLIGHT_BYTES_MAX = 1024 * 1024;
/**
 * While records keep coming, a batch is sent only every 10 flush intervals, or every 10 s if that is less: large batches take fewer packets
 * and compress better. A record after a pause is sent after one interval, and so are errors and batches over SUSTAINED_BYTES_MAX.
 */
const SUSTAINED_INTERVALS = 10;
const SUSTAINED_MS_MAX = 10_000;
const SUSTAINED_BYTES_MAX = 64 * 1024;
const URGENT: ReadonlySet<LogLevel> = new Set(["error", "fatal"]);
/** Flush interval while a client follows the log. */
const FOLLOW_FLUSH_MS = 50;
/**
 * Maximum wait for the acknowledgement of a batch. After that the batch counts as lost, although the link is
 * up, and is sent again.
 */
const LOG_ACK_TIMEOUT_MS = 30_000;

/** Sends batches to the server. It exists while the link is up. */
interface LogOutlet {
  room(): number;
  /** Returns false if the batch could not be queued. The caller then passes the batch again later. */
  send(message: string): boolean;
}

/** The methods of a spool that are needed to send its records. Simulated robots implement them in memory. */
type LogSource = Pick<LogSpool, "next" | "rewind" | "acknowledge">;

/** Sends the records of the spool in batches, and limits the unacknowledged bytes. */
export class LogShipper {
  readonly #spool: LogSource;
  readonly #clock: Clock;
  #outlet: LogOutlet | undefined;
  #flush_ms = FOLLOW_FLUSH_MS;
  #following = false;
  #flush: { timer: Timer; at: number } | undefined;
  #flushed_at = -Infinity;
  /** Approximate bytes of the records that wait for the next flush. */
  #waiting_bytes = 0;
  /** Whether the last `pump` stopped at a limit, so that more records may be waiting. */
  #is_behind = false;
  #ack_timeout: Timer | undefined;
  #in_flight: { last_seq: number; bytes: number }[] = [];
  #acked = 0;

  constructor(spool: LogSource, clock: Clock) {
    this.#spool = spool;
    this.#clock = clock;
  }

  /** Starts sending after a connect. Sends all records after `acked`, then new records every `flush_ms`. */
  start(outlet: LogOutlet, options: { acked: number; flush_ms: number }): void {
    this.stop();
    this.#outlet = outlet;
    this.#acked = options.acked;
    this.#flush_ms = options.flush_ms;
    this.#spool.rewind(options.acked);
    this.pump();
  }

  stop(): void {
    this.#outlet = undefined;
    this.#following = false;
    this.#in_flight = [];
    this.#flushed_at = -Infinity;
    this.#cancelFlush();
    this.#ack_timeout?.cancel();
  }

  follow(on: boolean): void {
    this.#following = on;
    this.#cancelFlush();
    if (on) this.pump();
    else this.recordAdded();
  }

  /** Schedules a flush if none is pending. Must be called after each new record. No timer runs while no records are written. */
  recordAdded({ level, message }: Partial<Pick<LogRecord, "level" | "message">> = {}): void {
    if (this.#outlet === undefined) return;
    this.#waiting_bytes += message?.length ?? 0;
    const now = this.#clock.monotonic();
    const soon = now + (this.#following ? Math.min(FOLLOW_FLUSH_MS, this.#flush_ms) : this.#flush_ms);
    const is_urgent = this.#following || this.#waiting_bytes > SUSTAINED_BYTES_MAX || (level !== undefined && URGENT.has(level));
    const at = is_urgent ? soon : Math.max(soon, this.#flushed_at + Math.min(SUSTAINED_INTERVALS * this.#flush_ms, SUSTAINED_MS_MAX));
    if (this.#flush !== undefined && this.#flush.at <= at) return;
    this.#cancelFlush();
    const timer = this.#clock.setTimer(at - now, () => {
      this.#flush = undefined;
      this.#flushed_at = this.#clock.monotonic();
      this.pump();
    });
    this.#flush = { timer, at };
  }

  acknowledge(seq: number): void {
    if (seq <= this.#acked) return;
    this.#acked = seq;
    this.#spool.acknowledge(seq);
    this.#in_flight = this.#in_flight.filter((batch) => batch.last_seq > seq);
    this.#watchAck();
    this.resume();
  }

  /**
   * Continues if the last `pump` stopped at a limit: unacknowledged bytes, or room in the send queue. Otherwise, new records wait for their
   * flush.
   */
  resume(): void {
    if (this.#is_behind) this.pump();
  }

  /** Sends batches until the spool is empty or a limit is reached. */
  pump(): void {
    const outlet = this.#outlet;
    if (outlet === undefined) return;
    this.#waiting_bytes = 0;
    this.#is_behind = true;
    while (this.#bytesInFlight() < LOG_IN_FLIGHT_BYTES_MAX && outlet.room() > LOG_BATCH_BYTES_MAX) {
      const batch = this.#spool.next({ records: LOG_BATCH_RECORDS_MAX, bytes: LOG_BATCH_BYTES_MAX });
      this.#is_behind = batch !== undefined;
      if (batch === undefined) break;
      if (!outlet.send(`{"type":"logs","records":[${batch.lines.join(",")}]}`)) {
        this.#spool.rewind(this.#acked);
        this.#in_flight = [];
        break;
      }
      this.#in_flight.push({ last_seq: batch.last_seq, bytes: batch.bytes });
      if (this.#in_flight.length === 1) this.#watchAck();
    }
  }

  #bytesInFlight(): number {
    return this.#in_flight.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #watchAck(): void {
    this.#ack_timeout?.cancel();
    if (this.#in_flight.length === 0) return;
    this.#ack_timeout = this.#clock.setTimer(LOG_ACK_TIMEOUT_MS, () => {
      this.#in_flight = [];
      this.#spool.rewind(this.#acked);
      this.pump();
    });
  }

  #cancelFlush(): void {
    this.#flush?.timer.cancel();
    this.#flush = undefined;
  }
}
