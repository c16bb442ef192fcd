import assert from "node:assert/strict";
import { test } from "node:test";
import { addSample, rateOf, type Samples, secondsLeft } from "./rate.ts";

const sampled = (...points: [number, number][]): Samples => points.reduce<Samples>((all, [at, bytes]) => addSample(all, at, bytes), []);

test("computes the upload rate of the last seconds and the remaining time", () => {
  const samples = sampled([0, 0], [1_000, 1_000], [2_000, 2_000]);
  assert.equal(rateOf(samples), 1_000);
  assert.equal(secondsLeft(samples, 5_000), 3);
});

test("drops upload rate samples outside the time window", () => {
  const points = Array.from({ length: 100 }, (_, at): [number, number] => [at * 1_000, at < 50 ? 0 : (at - 50) * 10]);
  const samples = sampled(...points);
  assert.ok(samples.length <= 7, String(samples.length));
  assert.equal(rateOf(samples), 10);
});

test("restarts the upload rate measurement if the offset decreases", () => {
  const samples = sampled([0, 0], [1_000, 9_000], [2_000, 4_000]);
  assert.equal(rateOf(samples), undefined);
  assert.equal(secondsLeft(samples, 5_000), undefined);
});

test("returns no remaining time for an upload without progress", () => {
  assert.equal(secondsLeft(sampled([0, 10], [3_000, 10]), 100), undefined);
});
