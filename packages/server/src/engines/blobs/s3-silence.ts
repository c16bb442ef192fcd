import { systemClock } from "@roamfleet/clock";
import { type S3Error, toS3Error } from "./s3-error.ts";

/**
 * A circuit breaker for the store. It opens when a call gets no response. Then one call at a time probes the store, and all others fail
 * immediately, because they may occupy a database connection, a lock or an upload's memory.
 */
export class S3Silence {
  #reason: S3Error | undefined;
  #asked_again = false;
  /** Real time, not the plane's: network timeouts are real even if a test stops the clock. */
  #next_at = 0;
  readonly #pause_ms: number;

  /** After a call without a response, no call is sent for `pause_ms`. */
  constructor(pause_ms: number) {
    this.#pause_ms = pause_ms;
  }

  /** Rejects with an S3Error. */
  async unless<T>(call: string, send: () => Promise<T>): Promise<T> {
    const asks_again = this.#reason !== undefined;
    if (this.#reason !== undefined) {
      if (this.#asked_again || systemClock.monotonic() < this.#next_at) throw this.#reason.during(call);
      this.#asked_again = true;
    }
    try {
      const answer = await send();
      this.#reason = undefined;
      return answer;
    } catch (error) {
      const s3_error = toS3Error(call, error);
      this.#reason = s3_error.is_silence ? s3_error : undefined;
      this.#next_at = systemClock.monotonic() + this.#pause_ms;
      throw s3_error;
    } finally {
      if (asks_again) this.#asked_again = false;
    }
  }
}
