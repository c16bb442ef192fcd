import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

/** How long a test waits for what should come at once: a machine that runs three test files on two cores is slow. */
export const UNTIL_MS = 60_000;
const POLL_MS = 10;
const POLL_MS_MAX = 50;
/** A look costs something: who has waited long is in less of a hurry. */
const POLL_SHARE = 40;
const SHOWN_CHARACTERS_MAX = 2_000;

export type Truthy<T> = Exclude<T, false | 0 | 0n | "" | null | undefined | void>;

export interface UntilOptions {
  /** Milliseconds of real time, whatever clock the test has. */
  deadline_ms?: number;
  /** Without it every 10 ms, and with time every 50 ms. */
  poll_ms?: number;
  /** Runs between two looks: it moves a simulated clock, or asks again. */
  meanwhile?: () => unknown;
  /** The deadline starts anew whenever this has changed. */
  progress?: () => unknown;
  /** What the error says besides. */
  detail?: () => string;
  /** An error of `look` is a "not yet"; without this it ends the wait at once, as what can no longer come. */
  despite_errors?: boolean;
}

/** Resolves with the first truthy answer of `look`; rejects, after `deadline_ms`, with what was waited for and what was seen last. */
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

/** A look that does not answer is no reason to wait for ever. */
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
  const last = seen === "stuck" ? "the look did not end" : "error" in seen ? String(seen.error) : inspect(seen.value, { depth: 4 });
  const more = detail === undefined ? "" : `\n${detail()}`;
  const cause = seen !== "stuck" && "error" in seen ? { cause: seen.error } : undefined;
  return new Error(`waited ${deadline_ms} ms in vain for: ${what}; last seen: ${last.slice(0, SHOWN_CHARACTERS_MAX)}${more}`, cause);
}
