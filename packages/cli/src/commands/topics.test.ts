import assert from "node:assert/strict";
import { test } from "node:test";
import { TopicRateMeter } from "@roamfleet/protocol/topic-rate";
import { rateText } from "./topics.ts";

test("formats a topic rate like rostopic hz", () => {
  const meter = new TopicRateMeter(10_000);
  assert.equal(meter.read(), undefined);
  for (const at_ms of [0, 100, 190, 300]) meter.add(at_ms, 0);
  assert.equal(rateText(meter.read()!), "average rate: 10.000\n\tmin: 0.090s max: 0.110s std dev: 0.00816s window: 4");
});

test("counts skipped topic messages in the rate but not in the minimum and maximum interval", () => {
  const meter = new TopicRateMeter(10_000);
  meter.add(0, 0);
  meter.add(400, 3);
  assert.deepEqual(meter.read(), { rate: 10, min_s: null, max_s: null, std_dev_s: null, window: 5 });
  assert.match(rateText(meter.read()!), /min: - max: - std dev: - window: 5/);
  meter.add(500, 0);
  assert.deepEqual(meter.read(), { rate: 10, min_s: 0.1, max_s: 0.1, std_dev_s: 0, window: 6 });
});
