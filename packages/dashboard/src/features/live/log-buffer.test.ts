import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { createLogBuffer, LOG_RECORDS_MAX, LOG_WAITING_MAX } from "./log-buffer.ts";

const START = Date.parse("2030-01-01T00:00:00Z");
const at = (seq: number): string => new Date(START + seq * 1_000).toISOString();
const record = (seq: number, rest: Partial<LogRecord> = {}): LogRecord => ({
  robot_id: "rob_1",
  seq,
  at: at(seq),
  received_at: at(seq),
  level: "info",
  source: "nav",
  message: `message ${seq}`,
  fields: {},
  ...rest,
});
const range = (from: number, to: number): LogRecord[] => Array.from({ length: to - from }, (_, i) => record(from + i));
const seqs = (buffer: ReturnType<typeof createLogBuffer>): number[] => buffer.read().rows.map((row) => row.record.seq);

test("shows a repeated log record once and every gap record", () => {
  const buffer = createLogBuffer({ many: false });
  buffer.add(range(0, 3));
  buffer.add([record(2), record(3)]);
  buffer.add([record(3, { fields: { gap: {} } })]);
  assert.deepEqual(seqs(buffer), [0, 1, 2, 3, 3]);
  assert.equal(buffer.after, at(3));
});

test("deduplicates log records per robot and resumes a fleet's log with an overlap", () => {
  const buffer = createLogBuffer({ many: true });
  buffer.add([record(9), record(9, { robot_id: "rob_2" })]);
  assert.deepEqual(seqs(buffer), [9, 9]);
  assert.equal(buffer.after, at(4));
});

test("prepends older log records in order and keeps the keys of other rows", () => {
  const buffer = createLogBuffer({ many: false });
  buffer.add(range(10, 12));
  const keys = buffer.read().rows.map(({ key }) => key);
  buffer.addOlder(range(5, 10));
  buffer.addOlder(range(3, 5));
  assert.deepEqual(seqs(buffer), [3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.deepEqual(
    buffer
      .read()
      .rows.slice(-2)
      .map(({ key }) => key),
    keys,
  );
  assert.equal(new Set(buffer.read().rows.map(({ key }) => key)).size, 9);
});

test("keeps a limited number of the newest log records", () => {
  const buffer = createLogBuffer({ many: false });
  for (let from = 0; from < LOG_RECORDS_MAX + 2_000; from += 100) buffer.add(range(from, from + 100));
  const { rows } = buffer.read();
  assert.ok(rows.length <= LOG_RECORDS_MAX + 250);
  assert.equal(rows.at(-1)?.record.seq, LOG_RECORDS_MAX + 1_999);
});

test("buffers and counts new log records while the log is paused", () => {
  const buffer = createLogBuffer({ many: false });
  buffer.add(range(0, 2));
  buffer.hold();
  buffer.add(range(2, 5));
  assert.deepEqual(seqs(buffer), [0, 1]);
  assert.equal(buffer.read().waiting, 3);
  assert.equal(buffer.release(), true);
  assert.deepEqual(seqs(buffer), [0, 1, 2, 3, 4]);
  assert.equal(buffer.read().waiting, 0);
});

test("requires a reload if too many log records arrived while the log was paused", () => {
  const buffer = createLogBuffer({ many: false });
  buffer.hold();
  buffer.add(range(0, LOG_WAITING_MAX + 10));
  assert.equal(buffer.read().waiting, LOG_WAITING_MAX + 10);
  assert.equal(buffer.read().not_kept, 10);
  assert.equal(buffer.release(), false);
});

test("drops the newest log rows when many older rows are loaded", () => {
  const buffer = createLogBuffer({ many: false });
  buffer.add(range(LOG_RECORDS_MAX, LOG_RECORDS_MAX + 10));
  buffer.hold();
  buffer.addOlder(range(0, LOG_RECORDS_MAX));
  assert.equal(buffer.read().rows.length, LOG_RECORDS_MAX);
  assert.equal(buffer.read().is_cut, true);
  assert.equal(seqs(buffer)[0], 0);
  assert.equal(buffer.release(), false);
});
