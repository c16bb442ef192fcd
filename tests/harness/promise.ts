import { appendFileSync } from "node:fs";
import type { TestContext } from "node:test";

/** What a proof leaves for `npm run promises`: one JSON line. */
export interface Proof {
  promise: number;
  figure: string;
  test: string;
}

/** The size of a proof: what `npm test` can afford, or the whole figure under `npm run promises`. */
export const promiseSize = ({ test, full }: { test: number; full: number }): number =>
  process.env.ROBOFLEET_PROMISES === "full" ? full : test;

/**
 * Says that the test has proven promise `promise`, and with which figure. Call it last, after every assertion: a proof
 * that is not said counts as missing.
 */
export function provePromise(t: TestContext, promise: number, figure: string): void {
  t.diagnostic(`promise ${promise}: ${figure}`);
  const file = process.env.ROBOFLEET_PROMISES_FILE;
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ promise, figure, test: t.name } satisfies Proof)}\n`);
}
