import { type Clock, exponentialMs } from "@roamfleet/clock";

const BACKOFF_MS_FIRST = 1_000;
const BACKOFF_MS_MAX = 60_000;
/** A server's request for a longer wait than this is ignored. */
const RETRY_AFTER_MS_MAX = 3_600_000;
/** Wait of a robot that the server refuses: a person has to act first. */
const SLOW_MS = 300_000;

/** Full jitter: uniform between 0 and a bound that doubles from 1 s to 60 s. `attempt` counts failures from 0. */
export function backoffMs(clock: Pick<Clock, "random">, attempt: number): number {
  return Math.round(clock.random() * exponentialMs(BACKOFF_MS_FIRST, BACKOFF_MS_MAX, attempt));
}

/** Returns about five minutes, with a jitter of a fifth so that refused robots do not return at the same time. */
export function slowMs(clock: Pick<Clock, "random">): number {
  return Math.round(SLOW_MS * (1 - clock.random() / 5));
}

/** Returns the server's requested wait in milliseconds; undefined if it is not a valid number. */
export function sensibleWaitMs(value: unknown): number | undefined {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) return undefined;
  return Math.min(value, RETRY_AFTER_MS_MAX);
}

/** Parses a Retry-After header (seconds or an HTTP date). `server_date` is the response's Date header, since the robot's clock may be wrong. */
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
