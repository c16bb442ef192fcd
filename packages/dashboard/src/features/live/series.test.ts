import assert from "node:assert/strict";
import { test } from "node:test";
import { createSeries, POINTS_MAX, WINDOW_S } from "./series.ts";

const START = Date.parse("2030-01-01T00:00:00Z");
const at = (seconds: number): string => new Date(START + seconds * 1_000).toISOString();

test("returns the points within the window for each field", () => {
  const series = createSeries();
  for (let second = 0; second <= 100; second += 10) series.add(at(second), { x: second, y: { z: -second } });
  const [times, xs, zs] = series.read(["x", "y.z"]);
  assert.equal(times?.length, WINDOW_S / 10);
  assert.deepEqual(xs, [50, 60, 70, 80, 90, 100]);
  assert.deepEqual(zs, [-50, -60, -70, -80, -90, -100]);
});

test("bounds the points of a fast topic", () => {
  const series = createSeries();
  for (let i = 0; i < POINTS_MAX + 500; i += 1) series.add(at(i / 1_000), { x: i });
  const [times, xs] = series.read(["x"]);
  assert.equal(times.length, POINTS_MAX);
  assert.equal(xs?.at(-1), POINTS_MAX + 499);
});

test("has a gap for missing fields, and skips older messages until the clock is set back", () => {
  const series = createSeries();
  series.add(at(1_000), { x: 1 });
  series.add(at(1_001), { y: 1 });
  series.add(at(1_000.5), { x: 2 });
  assert.deepEqual(series.read(["x"])[1], [1, null]);
  series.add(at(0), { x: 3 });
  assert.deepEqual(series.read(["x"])[1], [3]);
});
