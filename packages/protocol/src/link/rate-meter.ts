/** Bulk (logs, topics, camera) may always have this much on its way, however slow the link is. */
export const BULK_BYTES_MIN = 8 * 1024;
/** More is never on its way, however fast the link is: what is sent cannot be overtaken any more. */
export const BULK_BYTES_MAX = 256 * 1024;
/** So much of the link's time bulk may hold, in milliseconds: what a shell or a command waits at most behind it. */
const BULK_MS_MIN = 150;
/** On long links (satellite) more, or the link would stand idle while the acknowledgement travels. */
const BULK_ROUND_TRIPS = 1.5;
const BULK_MS_MAX = 1_200;
/** While the rate is thought too low, a slice seems to take all of the round trip: with less than this the rate would never grow. */
const DISTANCE_SHARE_MIN = 0.75;
/** Under 2 Mbit/s bulk goes in small slices. */
const SLOW_BYTES_PER_SECOND = 250_000;
export const SLOW_SLICE_BYTES = 4 * 1024;
/** A rate that was not reached again for one to two such times is forgotten: the link got slower. */
const RATE_KEPT_MS = 1_000;
/** Two events closer together than this say nothing about a rate. */
const SAMPLE_MS_MIN = 1;

interface Sent {
  /** Not yet acknowledged, and when it was sent. */
  bytes: number;
  whole: number;
  at: number;
  /** What had been acknowledged when this was sent, and when the last of it was. */
  delivered: number;
  delivered_at: number;
  /** There was nothing more to send: a low rate is the sender's, not the link's. */
  limited: boolean;
}

/**
 * Measures how fast the other end takes bulk, from its acknowledgements, and says how much may be on its way: the highest
 * rate of the last seconds times 150 ms, between 8 and 256 KiB. Times are monotonic milliseconds that are passed in.
 */
export class RateMeter {
  #sent: Sent[] = [];
  #in_flight = 0;
  #delivered = 0;
  #delivered_at = 0;
  #best = 0;
  #best_before = 0;
  #best_since = 0;
  /** The shortest that was seen, and the bytes whose own way through the line is part of it. */
  #round_trip = { ms: Infinity, bytes: 0 };

  /** Bytes sent and not acknowledged. */
  get in_flight(): number {
    return this.#in_flight;
  }

  /** Bytes per second; 0 before the first acknowledgement. */
  get rate(): number {
    return Math.max(this.#best, this.#best_before);
  }

  /** Bytes that may be on their way. */
  get budget(): number {
    const ms = Math.min(BULK_MS_MAX, Math.max(BULK_MS_MIN, BULK_ROUND_TRIPS * this.#distance_ms));
    return Math.min(BULK_BYTES_MAX, Math.max(BULK_BYTES_MIN, Math.floor((this.rate * ms) / 1_000)));
  }

  /** Bytes of the longest slice that is good to send now. */
  get slice(): number {
    return this.rate < SLOW_BYTES_PER_SECOND ? SLOW_SLICE_BYTES : Math.floor(this.budget / 2);
  }

  /** The round trip without what the line needed for the bytes themselves: on a slow one that is as much again. */
  get #distance_ms(): number {
    const { ms, bytes } = this.#round_trip;
    return Number.isFinite(ms) ? Math.max(DISTANCE_SHARE_MIN * ms, ms - (bytes * 1_000) / this.rate) : 0;
  }

  sent(bytes: number, now: number, limited: boolean): void {
    if (this.#in_flight === 0) this.#delivered_at = now;
    this.#in_flight += bytes;
    this.#sent.push({ bytes, whole: bytes, at: now, delivered: this.#delivered, delivered_at: this.#delivered_at, limited });
  }

  /** The other end has received `bytes` more. False when it says more than it was sent: it breaks the protocol. */
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
