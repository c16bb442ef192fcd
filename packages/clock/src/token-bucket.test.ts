import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteRate } from "./index.ts";

test("a byte rate allows one second's bytes at once, then only its bytes per second", () => {
  const rate = new ByteRate(1_000, 0);
  assert.equal(rate.spend(1_000, 0), 0);
  assert.equal(rate.spend(500, 0), 500);
  assert.equal(rate.spend(0, 499), 1);
  assert.equal(rate.spend(0, 500), 0);
  // An hour of silence saves the bytes of one second, not of an hour.
  assert.equal(rate.spend(1_000, 3_600_000), 0);
  assert.equal(rate.spend(2_000, 3_600_000), 2_000);
});
