import { systemClock } from "@roamfleet/clock";
import { type S3Error, toS3Error } from "./s3-error.ts";

/**
 * Whether the store is silent: a call got no answer, and none has got one since. Then one call at a time finds out whether it still is,
 * and the others are told so at once, since they may hold what others need: a connection to the database, a lock, the memory of an upload.
 */
export class S3Silence {
  #reason: S3Error | undefined;
  #asked_again = false;
  /** Not the plane's time: the network's is real also where a test holds time still. */
  #next_at = 0;
  readonly #pause_ms: number;

  /** After a call without an answer nobody asks for `pause_ms`. */
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
      const told = toS3Error(call, error);
      this.#reason = told.is_silence ? told : undefined;
      this.#next_at = systemClock.monotonic() + this.#pause_ms;
      throw told;
    } finally {
      if (asks_again) this.#asked_again = false;
    }
  }
}
