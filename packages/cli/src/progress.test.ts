import assert from "node:assert/strict";
import { test } from "node:test";
import { Speed } from "./progress.ts";

test("measures the upload speed over the last ten seconds", () => {
  const speed = new Speed();
  assert.equal(speed.at(0, 0), undefined);
  assert.equal(speed.at(400, 40), undefined);
  assert.equal(speed.at(1_000, 100), 100);
  for (let at_ms = 1_000; at_ms <= 60_000; at_ms += 100) speed.at(at_ms, at_ms / 10);
  // Ten times as fast: after ten seconds the previous minute no longer counts.
  for (let at_ms = 60_100; at_ms <= 71_000; at_ms += 100) speed.at(at_ms, 6_000 + (at_ms - 60_000));
  assert.equal(Math.round(speed.at(71_100, 6_000 + 11_100) ?? 0), 1_000);
});

test("ignores the resume offset, lost bytes and idle time when measuring the upload speed", () => {
  const speed = new Speed();
  speed.at(0, 5_000_000);
  assert.equal(speed.at(1_000, 5_000_100), 100);
  assert.equal(speed.at(1_500, 4_000_000), undefined);
  assert.equal(speed.at(2_500, 4_000_050), 50);
  const still = new Speed();
  still.at(0, 7);
  assert.equal(still.at(20_000, 7), undefined);
});
