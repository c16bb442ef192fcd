import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import type { TestContext } from "node:test";

/** What a proof leaves for `npm run promises`: one JSON line. */
export interface Proof {
  promise: number;
  figure: string;
  test: string;
}

const IS_FULL = process.env.ROAMFLEET_PROMISES === "full";

/** The size of a proof: what `npm test` can afford, or the whole figure under `npm run promises`. */
export const promiseSize = ({ test, full }: { test: number; full: number }): number => (IS_FULL ? full : test);

/**
 * A time that is promised. It is asserted in the full size, where nothing runs beside it; in the other it is only told: a
 * machine that runs three test files at once takes what it takes.
 */
export function checkTime(t: TestContext, what: string, took_ms: number, most_ms: number): void {
  const figure = `${what} after ${Math.round(took_ms)} ms`;
  t.diagnostic(figure);
  if (IS_FULL) assert.ok(took_ms <= most_ms, `${figure}, at most ${most_ms} ms`);
}

/**
 * Says that the test has proven promise `promise`, and with which figure. Call it last, after every assertion: a proof
 * that is not said counts as missing.
 */
export function provePromise(t: TestContext, promise: number, figure: string): void {
  t.diagnostic(`promise ${promise}: ${figure}`);
  const file = process.env.ROAMFLEET_PROMISES_FILE;
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ promise, figure, test: t.name } satisfies Proof)}\n`);
}
