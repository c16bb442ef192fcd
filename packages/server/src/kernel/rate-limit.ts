import type { Clock } from "@roamfleet/clock";
import { LRUCache } from "lru-cache";
import { httpError } from "./fault.ts";
import { networkOf } from "./networks.ts";

export interface Rate {
  per_minute: number;
  burst: number;
}

/** Keys whose buckets are remembered; beyond, the least recently used are forgotten (and start full again). */
const BUCKETS_MAX = 50_000;

/** Token buckets by key. `take` throws 429 with the headers that say when to come back. */
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

  /** Takes one from the bucket, or throws 429. */
  take(key: string): void {
    const bucket = this.#filled(key);
    if (bucket.tokens < 1) throw this.#refusal(bucket.tokens);
    bucket.tokens -= 1;
  }

  /** Takes `cost` from the bucket when so much is in it; false, and nothing is taken, otherwise. */
  tryTake(key: string, cost: number): boolean {
    const bucket = this.#filled(key);
    if (bucket.tokens < cost) return false;
    bucket.tokens -= cost;
    return true;
  }

  /** Takes `cost` in any case; returns the milliseconds until the bucket is no longer in debt. */
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

/** The same by the network that an address is in: see networkOf. */
export class AddressRateLimit extends RateLimit {
  override take(address: string): void {
    super.take(networkOf(address));
  }

  override tryTake(address: string, cost: number): boolean {
    return super.tryTake(networkOf(address), cost);
  }
}

/** In whole numbers: what is less than one a minute is told by the hour. */
const policyOf = ({ per_minute }: Rate): string => (per_minute < 1 ? `q=${Math.round(per_minute * 60)};w=3600` : `q=${per_minute};w=60`);

export interface RateLimits {
  /** Requests of one portal token. */
  token: RateLimit;
  /** Requests of all portal tokens and sessions in one org. */
  org: RateLimit;
  /** Unknown tokens, unknown enrolment keys and wrong signatures of robots from one network. */
  unknown: AddressRateLimit;
  /** Wrong admin tokens from one network. */
  admin: AddressRateLimit;
}
