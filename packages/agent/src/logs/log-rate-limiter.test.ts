import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { LogRecord } from "../contract.ts";
import { SOURCE_BYTES_BURST, SOURCE_RECORDS_BURST, SOURCE_RECORDS_PER_SECOND, LogRateLimiter, SOURCES_MAX } from "./log-rate-limiter.ts";

function startRig() {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const records: LogRecord[] = [];
  const limiter = new LogRateLimiter({ write: (record) => void records.push(record) }, clock);
  const write = (source: string, count: number, message = "m"): void => {
    for (let i = 0; i < count; i += 1) limiter.write({ level: "info", source, message });
  };
  return { clock, records, limiter, write };
}

test("rate-limits each log source separately and logs the number of dropped records", async () => {
  const { clock, records, write } = startRig();
  write("noisy", SOURCE_RECORDS_BURST + 5_000);
  write("quiet", 3);
  assert.equal(records.filter(({ source }) => source === "noisy").length, SOURCE_RECORDS_BURST);
  assert.equal(records.filter(({ source }) => source === "quiet").length, 3);
  await clock.advance({ seconds: 1 });
  const gap = records.at(-1);
  assert.deepEqual([gap?.level, gap?.source, gap?.fields], ["warn", "roamfleet", { gap: { count: 5_000 }, source: "noisy" }]);
  assert.match(gap?.message ?? "", /^5000 records of noisy dropped/);
  records.length = 0;
  write("noisy", 2 * SOURCE_RECORDS_PER_SECOND);
  assert.ok(records.length >= SOURCE_RECORDS_PER_SECOND && records.length < 1.1 * SOURCE_RECORDS_PER_SECOND, String(records.length));
});

test("each log record is either written or counted as dropped", async () => {
  const { clock, records, limiter, write } = startRig();
  let written = 0;
  for (let i = 0; i < 50; i += 1) {
    write("noisy", 1_777);
    written += 1_777;
    await clock.advance({ milliseconds: 400 });
  }
  limiter.close();
  const gaps = records.filter(({ source }) => source === "roamfleet");
  const dropped = gaps.reduce((sum, { fields }) => sum + (fields as { gap: { count: number } }).gap.count, 0);
  assert.equal(records.length - gaps.length + dropped, written);
  assert.ok(dropped > 0 && gaps.length < 60, String(gaps.length));
});

test("limits the bytes of a log source but admits one message longer than the burst", async () => {
  const { clock, records, write } = startRig();
  const message = "x".repeat(SOURCE_BYTES_BURST / 16);
  write("big", 40, message);
  assert.equal(records.length, 15);
  await clock.advance({ minutes: 1 });
  records.length = 0;
  write("big", 1, "x".repeat(2 * SOURCE_BYTES_BURST));
  assert.equal(records.length, 1);
});

test("log sources beyond the maximum share one rate limit until idle sources are evicted", async () => {
  const { clock, limiter, records, write } = startRig();
  for (let i = 0; i < SOURCES_MAX; i += 1) write(`s${i}`, 1);
  write("late", SOURCE_RECORDS_BURST + 1);
  assert.deepEqual(limiter.dropping, ["others"]);
  await clock.advance({ minutes: 2 });
  records.length = 0;
  write("later", 1);
  write("later", SOURCE_RECORDS_BURST);
  assert.deepEqual(limiter.dropping, ["later"]);
});

test("measures the rate of delayed records by their timestamps", () => {
  const { limiter, records } = startRig();
  const count = 10 * SOURCE_RECORDS_BURST;
  for (let i = 0; i < count; i += 1) limiter.write({ level: "info", source: "journal", message: "m" }, 1_000_000 + i * 2);
  assert.equal(records.length, count);
});

test("drops no records below the rate limit after the clock was set back", () => {
  const { limiter, records } = startRig();
  const write = (count: number, at_ms: number): void => {
    for (let i = 0; i < count; i += 1) limiter.write({ level: "info", source: "journal", message: "m" }, at_ms);
  };
  const day_ms = 24 * 60 * 60 * 1_000;
  write(SOURCE_RECORDS_BURST, 2 * day_ms);
  write(1, day_ms);
  records.length = 0;
  write(SOURCE_RECORDS_PER_SECOND, day_ms + 10_000);
  assert.equal(records.filter(({ source }) => source === "journal").length, SOURCE_RECORDS_PER_SECOND);
});
