import { type Clock, exponentialMs } from "@roamfleet/clock";

const BACKOFF_MS_FIRST = 1_000;
const BACKOFF_MS_MAX = 60_000;
/** Maximum wait that a server can request; a longer one is reduced to this. */
const RETRY_AFTER_MS_MAX = 3_600_000;
/** Maximum wait before a robot that the server refused tries again. It is long, since only a person can fix the cause. */
const SLOW_MS = 300_000;

/**
 * Returns a backoff in milliseconds with full jitter: random between 0 and a limit that doubles from 1 s up to 60 s. `attempt` is the
 * number of failures so far.
 */
export function backoffMs(clock: Pick<Clock, "random">, attempt: number): number {
  return Math.round(clock.random() * exponentialMs(BACKOFF_MS_FIRST, BACKOFF_MS_MAX, attempt));
}

/** Returns a wait of 4 to 5 minutes in milliseconds, at random so that refused robots do not return at the same time. */
export function slowMs(clock: Pick<Clock, "random">): number {
  return Math.round(SLOW_MS * (1 - clock.random() / 5));
}

/** Returns the wait that the server requested in milliseconds, at most an hour; undefined if it is not a valid number. */
export function sensibleWaitMs(value: unknown): number | undefined {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) return undefined;
  return Math.min(value, RETRY_AFTER_MS_MAX);
}

/**
 * Parses a Retry-After header (seconds or an HTTP date) to milliseconds. An HTTP date is compared with the response's Date header
 * (`server_date`), since the robot's clock may be wrong.
 */
export function retryAfterMs(
  header: string | null | undefined,
  server_date: string | null | undefined,
  clock: Pick<Clock, "now">,
): number | undefined {
  if (!header) return undefined;
  if (/^\d+(\.\d+)?$/.test(header)) return sensibleWaitMs(Number(header) * 1000);
  const at = Date.parse(header);
  const now = Date.parse(server_date ?? "");
  return sensibleWaitMs(Math.max(0, at - (Number.isNaN(now) ? clock.now().getTime() : now)));
}
