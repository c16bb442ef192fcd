import assert from "node:assert/strict";
import { test } from "node:test";
import { TopicRateMeter } from "./topic-rate.ts";

test("includes skipped messages in the topic rate", () => {
  const meter = new TopicRateMeter(500);
  assert.equal(meter.read(), undefined);
  for (let i = 0; i <= 10; i += 1) meter.add(1_000_000 + i * 500, i === 0 ? 0 : 4);
  assert.equal(meter.read()?.rate, 10);
});

test("measures the topic rate over the last intervals only", () => {
  const meter = new TopicRateMeter(5);
  for (const at_ms of [0, 10_000, 20_000, 20_100, 20_200, 20_300, 20_400, 20_500]) meter.add(at_ms, 0);
  assert.deepEqual(meter.read()?.window, 6);
  assert.equal(meter.read()?.rate, 10);
});
