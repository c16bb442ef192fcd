import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import type { TestContext } from "node:test";

/** The JSON line that a proof writes for `npm run promises`. */
export interface Proof {
  promise: number;
  figure: string;
  test: string;
}

/** Whether this run is `npm run promises`, which measures in the full size. */
export const IS_FULL = process.env.ROAMFLEET_PROMISES === "full";

/** Returns the size of a test for a promise: small for `npm test`, full for `npm run promises`. */
export const promiseSize = ({ test, full }: { test: number; full: number }): number => (IS_FULL ? full : test);

/**
 * Checks a promised time. It is asserted in the full size only, where nothing else runs. Otherwise it is only printed, because
 * `npm test` runs three test files concurrently.
 */
export function checkTime(t: TestContext, what: string, took_ms: number, most_ms: number): void {
  const figure = `${what} after ${Math.round(took_ms)} ms`;
  t.diagnostic(figure);
  if (IS_FULL) assert.ok(took_ms <= most_ms, `${figure}, at most ${most_ms} ms`);
}

/**
 * Records that the test has proven promise `promise`, with the measured figure. Call this last, after every assertion. A test that ends
 * without this call counts as a missing proof.
 */
export function provePromise(t: TestContext, promise: number, figure: string): void {
  t.diagnostic(`promise ${promise}: ${figure}`);
  const file = process.env.ROAMFLEET_PROMISES_FILE;
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ promise, figure, test: t.name } satisfies Proof)}\n`);
}
