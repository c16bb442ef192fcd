import assert from "node:assert/strict";
import { test } from "node:test";
import { barsOf } from "./log-bars.ts";

const none = { trace: 0, debug: 0, info: 0, warn: 0, error: 0, fatal: 0 };

test("adds the counts of all parts of a histogram, and fills the gaps of the period", () => {
  const period = { since: "2030-01-01T00:00:30.000Z", until: "2030-01-01T00:03:30.000Z", bucket_seconds: 60 };
  const [at, later] = ["2030-01-01T00:01:00.000Z", "2030-01-01T00:03:00.000Z"];
  const bars = barsOf([
    { ...period, buckets: [{ at, counts: { ...none, info: 2, fatal: 1 } }] },
    {
      ...period,
      buckets: [
        { at, counts: { ...none, error: 1, warn: 3 } },
        { at: later, counts: { ...none, debug: 1 } },
      ],
    },
  ]);
  assert.deepEqual(
    bars.map(({ since, error, warn, other, total }) => [since.slice(14, 19), error, warn, other, total]),
    [
      ["00:00", 0, 0, 0, 0],
      ["01:00", 2, 3, 2, 7],
      ["02:00", 0, 0, 0, 0],
      ["03:00", 0, 0, 1, 1],
    ],
  );
  assert.equal(bars[1]?.until, "2030-01-01T00:02:00.000Z");
});
