import { hash } from "node:crypto";

/** Returns a number in [0, 1) that depends only on the arguments, on every machine and in any order of calls. */
export function chance(...words: readonly (string | number)[]): number {
  return Number.parseInt(hash("sha256", words.join("\n")).slice(0, 8), 16) / 2 ** 32;
}

/**
 * Returns the numbers (1 to `robots`) of the `fail` robots that fail, each in the middle of its interval, so that any part of the fleet in
 * enrollment order contains its share, plus or minus one.
 */
export function failingRobots(robots: number, fail: number): Set<number> {
  return new Set(Array.from({ length: fail }, (_, i) => Math.floor(((i + 0.5) * robots) / fail) + 1));
}
