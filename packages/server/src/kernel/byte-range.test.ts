import assert from "node:assert/strict";
import { test } from "node:test";
import { readRange } from "./byte-range.ts";

test("parses a single byte range and limits it to the size", () => {
  assert.deepEqual(readRange("bytes=0-0", 10), { start: 0, end: 0 });
  assert.deepEqual(readRange("bytes=3-", 10), { start: 3, end: 9 });
  assert.deepEqual(readRange("bytes=3-100", 10), { start: 3, end: 9 });
  assert.deepEqual(readRange("Bytes= 3-4 ", 10), { start: 3, end: 4 });
  assert.deepEqual(readRange("bytes=-4", 10), { start: 6, end: 9 });
  assert.deepEqual(readRange("bytes=-40", 10), { start: 0, end: 9 });
});

test("reports a byte range past the end as unsatisfiable", () => {
  for (const header of ["bytes=10-", "bytes=10-20", "bytes=-0"]) assert.equal(readRange(header, 10), "unsatisfiable", header);
  for (const header of ["bytes=0-", "bytes=-1"]) assert.equal(readRange(header, 0), "unsatisfiable", header);
});

test("ignores invalid and multiple byte ranges, as RFC 9110 allows", () => {
  for (const header of [
    undefined,
    "",
    "bytes",
    "bytes=",
    "bytes=-",
    "bytes=5-4",
    "bytes=0-1,3-4",
    "lines=0-1",
    "bytes=a-b",
    "bytes=1-2-3",
    "bytes=+1-2",
    "bytes=0x1-2",
  ]) {
    assert.equal(readRange(header, 10), "whole", header);
  }
});
