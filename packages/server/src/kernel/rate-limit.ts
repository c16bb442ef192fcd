import { type Bucket, type Clock, owe, type Rate, tryTake } from "@roamfleet/clock";
import { LRUCache } from "lru-cache";
import { httpError } from "./fault.ts";
import { networkOf } from "./networks.ts";

/**
 * Default maximum of buckets. Beyond it, the least recently used ones are evicted. A key whose bucket was evicted starts with a full one.
 */
export const BUCKETS_MAX = 50_000;

/** Token buckets by key. `take` throws 429 with the headers that state when to retry. */
export class RateLimit {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #rate: Rate;
  readonly #name: string;
  readonly #buckets: LRUCache<string, Bucket>;

  constructor(clock: Pick<Clock, "monotonic">, name: string, rate: Rate, buckets_max = BUCKETS_MAX) {
    // `max` is not used: with it, each of a server's eight limits would allocate and fill arrays of that length at the start, which takes
    // 30 ms and 9 MB in total.
    this.#buckets = new LRUCache({ maxSize: buckets_max, sizeCalculation: () => 1 });
    this.#clock = clock;
    this.#name = name;
    this.#rate = rate;
  }

  /** Takes one token, or throws 429. */
  take(key: string): void {
    const bucket = this.bucketOf(key);
    if (!tryTake(bucket, this.#rate, 1, this.#clock.monotonic())) throw this.#refusal(bucket.tokens);
  }

  /** Takes `cost` tokens if the bucket has that many. Otherwise takes none and returns false. */
  tryTake(key: string, cost: number): boolean {
    return tryTake(this.bucketOf(key), this.#rate, cost, this.#clock.monotonic());
  }

  /**
   * Takes `cost` tokens, even if the bucket's balance becomes negative. Returns the milliseconds until the balance is no longer negative.
   */
  owe(key: string, cost: number): number {
    return owe(this.bucketOf(key), this.#rate, cost, this.#clock.monotonic());
  }

  /** Returns the bucket of a key, a full one if it has none. */
  bucketOf(key: string): Bucket {
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) this.#buckets.set(key, (bucket = { tokens: this.#rate.burst, at: this.#clock.monotonic() }));
    return bucket;
  }

  #refusal(tokens: number): Error {
    const seconds = Math.max(1, Math.ceil(((1 - tokens) * 60) / this.#rate.per_minute));
    return httpError(429, `too many requests; try again in ${seconds} s`, {
      "retry-after": String(seconds),
      "ratelimit-policy": `"${this.#name}";${policyOf(this.#rate)}`,
      ratelimit: `"${this.#name}";r=0;t=${seconds}`,
    });
  }
}

/** A rate limit by the network of an address: see `networkOf`. */
export class AddressRateLimit extends RateLimit {
  override take(address: string): void {
    super.take(networkOf(address));
  }

  override tryTake(address: string, cost: number): boolean {
    return super.tryTake(networkOf(address), cost);
  }
}

/** Formats a rate for the header `ratelimit-policy`. The header takes whole numbers, so rates below one a minute are given per hour. */
const policyOf = ({ per_minute }: Rate): string => (per_minute < 1 ? `q=${Math.round(per_minute * 60)};w=3600` : `q=${per_minute};w=60`);

export interface RateLimits {
  /** Requests of one portal token. */
  token: RateLimit;
  /** Requests of all portal tokens and sessions in one org. */
  org: RateLimit;
  /** Unknown tokens, unknown enrollment keys and invalid robot signatures, by network. */
  unknown: AddressRateLimit;
  /** Wrong admin tokens, by network. */
  admin: AddressRateLimit;
}
