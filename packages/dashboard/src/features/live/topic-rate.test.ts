import assert from "node:assert/strict";
import { test } from "node:test";
import { createRateMeter } from "./topic-rate.ts";

test("includes skipped messages in the rate", () => {
  const meter = createRateMeter();
  assert.deepEqual(meter.read(), { hz: 0, skipped: 0, messages: 0 });
  for (let i = 0; i <= 10; i += 1) meter.add(new Date(1_000_000 + i * 500).toISOString(), i === 0 ? 0 : 4);
  assert.deepEqual(meter.read(), { hz: 10, skipped: 40, messages: 11 });
});
