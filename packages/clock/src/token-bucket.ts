/** A sustained rate, and the number of tokens that may be taken at once after a quiet time. */
export interface Rate {
  per_minute: number;
  burst: number;
}

export interface Bucket {
  tokens: number;
  /** Monotonic milliseconds of the last refill. */
  at: number;
}

/**
 * Takes `cost` tokens from a bucket, even if its balance becomes negative. Returns the milliseconds until the balance is no longer
 * negative.
 */
export function owe(bucket: Bucket, rate: Rate, cost: number, now: number): number {
  refill(bucket, rate, now);
  bucket.tokens -= cost;
  return bucket.tokens >= 0 ? 0 : (-bucket.tokens * 60_000) / rate.per_minute;
}

/** Takes `cost` tokens if the bucket has that many. Otherwise takes none and returns false. */
export function tryTake(bucket: Bucket, rate: Rate, cost: number, now: number): boolean {
  refill(bucket, rate, now);
  if (bucket.tokens < cost) return false;
  bucket.tokens -= cost;
  return true;
}

function refill(bucket: Bucket, { per_minute, burst }: Rate, now: number): void {
  bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) / 60_000) * per_minute);
  bucket.at = now;
}

/** Limits the bytes per second of a connection. After a pause, the bytes of one second may be transferred at once. */
export class ByteRate {
  readonly #rate: Rate;
  readonly #bucket: Bucket;

  /** `now`: monotonic milliseconds. */
  constructor(bytes_per_second: number, now: number) {
    this.#rate = { per_minute: bytes_per_second * 60, burst: bytes_per_second };
    this.#bucket = { tokens: bytes_per_second, at: now };
  }

  /** Counts transferred bytes. Returns the milliseconds until more may be transferred. With 0 bytes, only returns the milliseconds. */
  spend(bytes: number, now: number): number {
    return owe(this.#bucket, this.#rate, bytes, now);
  }
}
