import assert from "node:assert/strict";
import { test } from "node:test";
import { chance, failingRobots } from "./fleet.ts";

test("selects the requested number of failing robots, evenly distributed over the enrollment order", () => {
  for (const [robots, fail] of [
    [1_000, 50],
    [1_000, 150],
    [100, 5],
    [7, 3],
    [10, 10],
    [10, 0],
  ] as const) {
    const failing = failingRobots(robots, fail);
    assert.equal(failing.size, fail);
    for (let first = 1; first <= robots; first += 1) {
      const share = [...failing].filter((number) => number <= first).length;
      assert.ok(Math.abs(share - (first * fail) / robots) <= 1, `${share} of the first ${first}, ${fail} of ${robots}`);
    }
  }
});

test("returns the same pseudorandom number for the same input", () => {
  assert.equal(chance(7, 1, 1), chance(7, 1, 1));
  assert.notEqual(chance(7, 1, 1), chance(7, 11));
  const low = Array.from({ length: 10_000 }, (_, i) => chance(7, i)).filter((number) => number < 0.05).length;
  assert.ok(low > 400 && low < 600, `${low} of 10,000 are below 0.05`);
});
