import { hash } from "node:crypto";

/** A number in [0, 1) that is the same for the same words on every machine and in every order of asking. */
export function chance(...words: readonly (string | number)[]): number {
  return Number.parseInt(hash("sha256", words.join("\n")).slice(0, 8), 16) / 2 ** 32;
}

/**
 * Numbers of the robots that are to fail, from 1 to `robots`: `fail` of them, each in the middle of its share, so that any part
 * of the fleet in the order of enrolment holds its share of them, give or take one.
 */
export function failingRobots(robots: number, fail: number): Set<number> {
  return new Set(Array.from({ length: fail }, (_, i) => Math.floor(((i + 0.5) * robots) / fail) + 1));
}
