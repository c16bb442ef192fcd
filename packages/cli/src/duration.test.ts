import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, relative } from "./duration.ts";

test("formats times relative to now", () => {
  const now = new Date("2030-01-02T00:00:00Z");
  assert.equal(relative("2030-01-01T23:59:58.500Z", now), "just now");
  assert.equal(relative("2030-01-01T23:57:00.000Z", now), "3 min ago");
  assert.equal(relative("2030-01-02T05:00:00.000Z", now), "in 5 h");
  assert.equal(relative("2029-12-01T00:00:00.000Z", now), "32 d ago");
  assert.equal(relative(null, now), "never");
});

test("formats sizes in a suitable unit", () => {
  assert.deepEqual([0, 999, 1000, 123_456, 4_200_000_000].map(bytes), ["0 B", "999 B", "1.0 kB", "123 kB", "4.2 GB"]);
});
