import type { Clock } from "@roamfleet/clock";
import { LRUCache } from "lru-cache";
import { httpError } from "./fault.ts";
import { networkOf } from "./networks.ts";

export interface Rate {
  per_minute: number;
  burst: number;
}

/** Number of buckets kept. Beyond it the least recently used ones are evicted, and start full again. */
const BUCKETS_MAX = 50_000;

/** Token buckets by key. `take` throws 429 with the headers that state when to retry. */
export class RateLimit {
  readonly #clock: Clock;
  readonly #rate: Rate;
  readonly #name: string;
  readonly #buckets = new LRUCache<string, { tokens: number; at: number }>({ max: BUCKETS_MAX });

  constructor(clock: Clock, name: string, rate: Rate) {
    this.#clock = clock;
    this.#name = name;
    this.#rate = rate;
  }

  /** Takes one token, or throws 429. */
  take(key: string): void {
    const bucket = this.#filled(key);
    if (bucket.tokens < 1) throw this.#refusal(bucket.tokens);
    bucket.tokens -= 1;
  }

  /** Takes `cost` tokens if the bucket has that many. Otherwise takes none and returns false. */
  tryTake(key: string, cost: number): boolean {
    const bucket = this.#filled(key);
    if (bucket.tokens < cost) return false;
    bucket.tokens -= cost;
    return true;
  }

  /** Takes `cost` tokens in any case. Returns the milliseconds until the bucket is no longer negative. */
  owe(key: string, cost: number): number {
    const bucket = this.#filled(key);
    bucket.tokens -= cost;
    return bucket.tokens >= 0 ? 0 : (-bucket.tokens * 60_000) / this.#rate.per_minute;
  }

  #filled(key: string): { tokens: number; at: number } {
    const now = this.#clock.monotonic();
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { tokens: this.#rate.burst, at: now };
      this.#buckets.set(key, bucket);
    } else {
      bucket.tokens = Math.min(this.#rate.burst, bucket.tokens + ((now - bucket.at) / 60_000) * this.#rate.per_minute);
      bucket.at = now;
    }
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

/** The header takes whole numbers, so rates below one a minute are given per hour. */
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
