import type { Clock } from "@roamfleet/clock";
import type { FetchAnswer } from "../contract.ts";
import { retryAfterMs } from "../link/backoff.ts";

/** Responses of a server that is busy, starts or stops, or of a proxy before it: the request should be retried. */
const RETRY_LATER_STATUSES = new Set([429, 502, 503, 504]);

export const asksToRetryLater = ({ status }: FetchAnswer): boolean => RETRY_LATER_STATUSES.has(status);

/** The server asked to retry later, after `wait_ms` if it sent a time. */
export class RetryLater extends Error {
  readonly wait_ms: number;

  constructor({ status, headers }: FetchAnswer, clock: Clock) {
    super(`the server answered ${status}`);
    this.wait_ms = retryAfterMs(headers.get("retry-after"), headers.get("date"), clock) ?? 0;
  }
}
