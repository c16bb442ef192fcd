import assert from "node:assert/strict";
import { test } from "node:test";
import { childPath, createSeries, numberAt, pathSteps, POINTS_MAX, WINDOW_S } from "./topic-series.ts";

const START = Date.parse("2030-01-01T00:00:00Z");
const at = (seconds: number): string => new Date(START + seconds * 1_000).toISOString();

test("a topic chart returns the points within its time window for each field", () => {
  const series = createSeries();
  for (let second = 0; second <= 100; second += 10) series.add(at(second), { x: second, y: { z: -second } });
  const [times, xs, zs] = series.read(["x", "y.z"]);
  assert.equal(times?.length, WINDOW_S / 10);
  assert.deepEqual(xs, [50, 60, 70, 80, 90, 100]);
  assert.deepEqual(zs, [-50, -60, -70, -80, -90, -100]);
});

test("limits the number of chart points of a fast topic", () => {
  const series = createSeries();
  for (let i = 0; i < POINTS_MAX + 500; i += 1) series.add(at(i / 1_000), { x: i });
  const [times, xs] = series.read(["x"]);
  assert.equal(times.length, POINTS_MAX);
  assert.equal(xs?.at(-1), POINTS_MAX + 499);
});

test("a topic chart has a gap for a missing field and restarts when the clock is set back", () => {
  const series = createSeries();
  series.add(at(1_000), { x: 1 });
  series.add(at(1_001), { y: 1 });
  series.add(at(1_000.5), { x: 2 });
  assert.deepEqual(series.read(["x"])[1], [1, null]);
  series.add(at(0), { x: 3 });
  assert.deepEqual(series.read(["x"])[1], [3]);
});

test("formats and parses field paths of topic messages", () => {
  const path = childPath(childPath(childPath(childPath("", "pose"), "list"), 2), "x");
  assert.equal(path, "pose.list[2].x");
  assert.deepEqual(pathSteps(path), ["pose", "list", 2, "x"]);
  assert.deepEqual(pathSteps("[3][0]"), [3, 0]);
  assert.equal(childPath("", 3), "[3]");
  for (const wrong of ["", "a..b", "a[", "a[x]", "a]b"]) assert.equal(pathSteps(wrong), undefined, wrong);
});

test("finds numbers in topic messages, even in summarized lists", () => {
  const message = { pose: { x: 1.5, ok: true }, ranges: { length: 360, first: [3, 4, 5] }, list: [{ v: 7 }] };
  assert.equal(numberAt(message, "pose.x"), 1.5);
  assert.equal(numberAt(message, "pose.ok"), 1);
  assert.equal(numberAt(message, "ranges[1]"), 4);
  assert.equal(numberAt(message, "list[0].v"), 7);
  assert.equal(numberAt(12, ""), 12);
});

test("returns no number for a missing field or a value that is not a number", () => {
  const message = { text: "1", none: null, big: Number.NaN };
  for (const path of ["text", "none", "big", "none.x", "toString", "__proto__", "a.b"])
    assert.equal(numberAt(message, path), undefined, path);
});
