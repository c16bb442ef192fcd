import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { RateLimit } from "./rate-limit.ts";

test("keeps 50,000 rate limit buckets, and evicts the least recently used", () => {
  const limit = new RateLimit(new SimulatedClock({ at: "2030-01-01T00:00:00Z" }), "token", { per_minute: 1, burst: 1 });
  for (const key of ["first", "second"]) assert.equal(limit.tryTake(key, 1), true);
  for (let other = 2; other < 50_000; other += 1) limit.tryTake(`other ${other}`, 1);
  assert.equal(limit.tryTake("first", 1), false);
  limit.tryTake("one more", 1);
  assert.equal(limit.tryTake("first", 1), false);
  assert.equal(limit.tryTake("second", 1), true);
});
