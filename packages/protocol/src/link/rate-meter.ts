/** Minimum bytes of bulk (logs, topics, camera) in flight, however slow the link is. */
export const BULK_BYTES_MIN = 8 * 1024;
/** Maximum bytes of bulk in flight, however fast the link is: more urgent frames cannot overtake data that was already sent. */
export const BULK_BYTES_MAX = 256 * 1024;
/**
 * Transmission time, in milliseconds, that the bulk data in flight may take on a link with low latency. It bounds the delay of a shell or
 * command that is sent behind this data.
 */
const BULK_MS_MIN = 150;
/**
 * On links with high latency (satellite), bulk data in flight may take this many round trips. With fewer, the link would be idle until the
 * acknowledgement arrives.
 */
const BULK_ROUND_TRIPS = 1.5;
const BULK_MS_MAX = 1_200;
/**
 * Minimum share of the round trip that counts as latency. Without a minimum, a rate that is estimated too low would explain the whole round
 * trip as transmission time, and the estimate would never grow.
 */
const DISTANCE_SHARE_MIN = 0.75;
/** Rate (2 Mbit/s) below which bulk data is sent in small slices. */
const SLOW_BYTES_PER_SECOND = 250_000;
export const SLOW_SLICE_BYTES = 4 * 1024;
/** A measured rate is dropped if the link does not reach it again within one to two of these periods: the link has then become slower. */
const RATE_KEPT_MS = 1_000;
/**
 * Minimum duration from which a rate is computed, in milliseconds. A shorter one counts as this long, because it would give no usable rate.
 */
const SAMPLE_MS_MIN = 1;

interface Sent {
  /** `bytes`: bytes that are not acknowledged yet. `whole`: total bytes. `at`: when they were sent. */
  bytes: number;
  whole: number;
  at: number;
  /** State when the bytes were sent: the total of acknowledged bytes, and the time of the last acknowledgement. */
  delivered: number;
  delivered_at: number;
  /** Whether the sender had no more data. If so, a low rate does not mean that the link is slow. */
  limited: boolean;
}

/**
 * Measures from acknowledgements how fast the other end accepts bulk, and limits the bytes in flight. The limit is the highest recent rate
 * times 150 ms (with high latency 1.5 round trips, at most 1.2 s), between 8 and 256 KiB. Times are monotonic milliseconds passed as
 * arguments.
 */
export class RateMeter {
  #sent: Sent[] = [];
  #in_flight = 0;
  #delivered = 0;
  #delivered_at = 0;
  #best = 0;
  #best_before = 0;
  #best_since = 0;
  /** The shortest round trip seen, and the number of bytes whose transmission time it includes. */
  #round_trip = { ms: Infinity, bytes: 0 };

  /** Bytes that were sent and are not acknowledged yet. */
  get in_flight(): number {
    return this.#in_flight;
  }

  /** Bytes per second; 0 before the first acknowledgement. */
  get rate(): number {
    return Math.max(this.#best, this.#best_before);
  }

  /** Maximum bytes of bulk data that may be in flight now. */
  get budget(): number {
    const ms = Math.min(BULK_MS_MAX, Math.max(BULK_MS_MIN, BULK_ROUND_TRIPS * this.#distance_ms));
    return Math.min(BULK_BYTES_MAX, Math.max(BULK_BYTES_MIN, Math.floor((this.rate * ms) / 1_000)));
  }

  /** Maximum bytes of the next slice of bulk data to send. */
  get slice(): number {
    return this.rate < SLOW_BYTES_PER_SECOND ? SLOW_SLICE_BYTES : Math.floor(this.budget / 2);
  }

  /**
   * The latency of the link in milliseconds: the shortest round trip minus the transmission time of its bytes. On a slow link, this
   * transmission time may be as long as the latency.
   */
  get #distance_ms(): number {
    const { ms, bytes } = this.#round_trip;
    return Number.isFinite(ms) ? Math.max(DISTANCE_SHARE_MIN * ms, ms - (bytes * 1_000) / this.rate) : 0;
  }

  sent(bytes: number, now: number, limited: boolean): void {
    if (this.#in_flight === 0) this.#delivered_at = now;
    this.#in_flight += bytes;
    this.#sent.push({ bytes, whole: bytes, at: now, delivered: this.#delivered, delivered_at: this.#delivered_at, limited });
  }

  /** Records an acknowledgement of `bytes`. Returns false if that exceeds the bytes sent: a protocol violation. */
  acknowledged(bytes: number, now: number): boolean {
    if (bytes > this.#in_flight) return false;
    this.#in_flight -= bytes;
    this.#delivered += bytes;
    this.#delivered_at = now;
    let covered: Sent | undefined;
    let left = bytes;
    while (left > 0) {
      const head = this.#sent[0]!;
      if (head.bytes > left) {
        head.bytes -= left;
        break;
      }
      left -= head.bytes;
      covered = this.#sent.shift();
    }
    if (covered !== undefined) this.#sample(covered, now);
    return true;
  }

  #sample(covered: Sent, now: number): void {
    const round_trip_ms = now - covered.at;
    if (round_trip_ms < this.#round_trip.ms) this.#round_trip = { ms: round_trip_ms, bytes: covered.whole };
    const ms = Math.max(SAMPLE_MS_MIN, now - covered.delivered_at);
    const rate = ((this.#delivered - covered.delivered) * 1_000) / ms;
    if (covered.limited && rate <= this.rate) return;
    if (now - this.#best_since >= RATE_KEPT_MS) {
      this.#best_before = this.#best;
      this.#best = 0;
      this.#best_since = now;
    }
    this.#best = Math.max(this.#best, rate);
  }
}
