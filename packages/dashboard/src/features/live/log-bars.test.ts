import assert from "node:assert/strict";
import { test } from "node:test";
import { barsOf, ticksOf } from "./log-bars.ts";

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

test("labels a time axis with a few round times of the local time zone", () => {
  const since = new Date(2030, 0, 1, 10, 7).getTime();
  const minutes = (count: number): number => since + count * 60_000;
  const times = (until: number): string[] => ticksOf(since, until, 8).map(({ at_ms }) => new Date(at_ms).toTimeString().slice(0, 8));
  assert.deepEqual(times(minutes(3)), ["10:07:00", "10:07:30", "10:08:00", "10:08:30", "10:09:00", "10:09:30", "10:10:00"]);
  assert.deepEqual(times(minutes(60)), ["10:10:00", "10:20:00", "10:30:00", "10:40:00", "10:50:00", "11:00:00"]);
  assert.deepEqual(times(minutes(6 * 60)), ["11:00:00", "12:00:00", "13:00:00", "14:00:00", "15:00:00", "16:00:00"]);
  const days = ticksOf(since, minutes(48 * 60), 8);
  assert.deepEqual(
    days.map(({ at_ms }) => new Date(at_ms).getHours()),
    [12, 18, 0, 6, 12, 18, 0, 6],
  );
  assert.equal(days[2]?.text, new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" }).format(days[2]?.at_ms));
});
