import assert from "node:assert/strict";
import { test } from "node:test";
import { releaseMemory, shouldRelease } from "./idle-memory.ts";

const MB = 1_000_000;
const idle = { busy_share: 0.01, links: 3, rss: 120 * MB, released_rss: 0 };

test("memory is released after the start, and again when it has grown", () => {
  assert.equal(shouldRelease(idle), true);
  assert.equal(shouldRelease({ ...idle, released_rss: 99 * MB }), false);
  assert.equal(shouldRelease({ ...idle, rss: 300 * MB, released_rss: 99 * MB }), true);
});

test("a busy server and one with many links are not stopped for a collection", () => {
  assert.equal(shouldRelease({ ...idle, busy_share: 0.3 }), false);
  assert.equal(shouldRelease({ ...idle, links: 20_000 }), false);
});

test("a release shrinks the heap", () => {
  let lists: number[][] | undefined = Array.from({ length: 100 }, (_, i) => Array.from({ length: 50_000 }, (_n, at) => at + i + 0.5));
  const before = process.memoryUsage().heapTotal;
  assert.ok(lists.length === 100 && before > 20 * MB);
  lists = undefined;
  releaseMemory();
  assert.ok(process.memoryUsage().heapTotal < before - 20 * MB);
});
