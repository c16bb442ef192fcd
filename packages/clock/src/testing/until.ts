import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

/**
 * Default deadline. Most conditions are true immediately. The deadline is long, because a machine with two cores may run three test files
 * at the same time.
 */
export const UNTIL_MS = 60_000;
const POLL_MS = 10;
const POLL_MS_MAX = 50;
/** The poll interval is the elapsed time divided by this number (within limits), because polling costs CPU time. */
const POLL_SHARE = 40;
const SHOWN_CHARACTERS_MAX = 2_000;

export type Truthy<T> = Exclude<T, false | 0 | 0n | "" | null | undefined | void>;

export interface UntilOptions {
  /** Deadline in milliseconds of real time, whatever clock the test uses. */
  deadline_ms?: number;
  /** Poll interval. By default every 10 ms, growing to 50 ms. */
  poll_ms?: number;
  /** Called between two polls, for example to advance a simulated clock or to send a request again. */
  meanwhile?: () => unknown;
  /** Returns a value that shows progress. The deadline restarts whenever the value changes. */
  progress?: () => unknown;
  /** Additional text for the timeout error. */
  detail?: () => string;
  /** Whether an error of `look` counts as "not yet". Otherwise an error ends the wait immediately. */
  despite_errors?: boolean;
}

/** Polls `look` and resolves with its first truthy value; rejects after `deadline_ms` with the condition and the last value. */
export async function until<T>(what: string, look: () => T | Promise<T>, options: UntilOptions = {}): Promise<Truthy<Awaited<T>>> {
  const { deadline_ms = UNTIL_MS, poll_ms, meanwhile, progress = () => 0, despite_errors = false } = options;
  const began = performance.now();
  let end = began + deadline_ms;
  let before = progress();
  let seen: Seen<Awaited<T>> = { value: undefined };
  for (;;) {
    seen = await lookOnce(look, deadline_ms, despite_errors);
    if (isTruthy(seen)) return seen.value;
    const now = progress();
    if (!Object.is(now, before)) end = performance.now() + deadline_ms;
    before = now;
    if (performance.now() >= end) throw inVain(what, deadline_ms, seen, options.detail);
    await meanwhile?.();
    const slower_ms = meanwhile === undefined ? Math.min(POLL_MS_MAX, (performance.now() - began) / POLL_SHARE) : 0;
    await sleep(poll_ms ?? Math.max(POLL_MS, slower_ms));
  }
}

type Seen<T> = { value: T | undefined } | { error: unknown } | "stuck";

const isTruthy = <T>(seen: Seen<T>): seen is { value: Truthy<T> & T } => typeof seen === "object" && "value" in seen && Boolean(seen.value);

/** Calls `look` once and waits at most `limit_ms` for its result: a `look` that never resolves must not block the wait forever. */
async function lookOnce<T>(look: () => T | Promise<T>, limit_ms: number, despite_errors: boolean): Promise<Seen<Awaited<T>>> {
  const late = new AbortController();
  try {
    const answer = look();
    if (!(answer instanceof Promise)) return { value: answer as Awaited<T> };
    const stuck = sleep(limit_ms, "stuck" as const, { signal: late.signal }).catch(() => "stuck" as const);
    return await Promise.race([answer.then((value): Seen<Awaited<T>> => ({ value: value as Awaited<T> })), stuck]);
  } catch (error) {
    if (!despite_errors) throw error;
    return { error };
  } finally {
    late.abort();
  }
}

function inVain(what: string, deadline_ms: number, seen: Seen<unknown>, detail: (() => string) | undefined): Error {
  const last = seen === "stuck" ? "the check did not return" : "error" in seen ? String(seen.error) : inspect(seen.value, { depth: 4 });
  const more = detail === undefined ? "" : `\n${detail()}`;
  const cause = seen !== "stuck" && "error" in seen ? { cause: seen.error } : undefined;
  return new Error(
    `timed out after ${deadline_ms} ms waiting for: ${what}; last seen: ${last.slice(0, SHOWN_CHARACTERS_MAX)}${more}`,
    cause,
  );
}
