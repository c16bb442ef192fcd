import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, chainOf, forEachOf, segmentBytes } from "./s3-segments.ts";

const MIB = 1024 * 1024;
const stored_at = new Date(0);
const object = (start: number, end: number, size = end - start) => ({
  key: `uploads/org_1/rel_1/${String(start).padStart(16, "0")}-${end}-0123456789abcdef`,
  size,
  stored_at,
});
const stretches = (objects: Parameters<typeof chainOf>[0]): (readonly [number, number])[] =>
  chainOf(objects).chain.map(({ start, end }) => [start, end] as const);

test("joins consecutive segments from the first byte, and prefers the longest at each offset", () => {
  const objects = [object(0, 100), object(100, 150), object(100, 200), object(200, 300), object(400, 500), object(150, 170)];
  assert.deepEqual(stretches(objects), [
    [0, 100],
    [100, 200],
    [200, 300],
  ]);
  assert.deepEqual(chainOf(objects).strays, [object(100, 150).key, object(400, 500).key, object(150, 170).key]);
  assert.deepEqual([bytesOf(chainOf(objects).chain), bytesOf([])], [300, 0]);
});

test("ignores segments if the first one is missing, and objects with a wrong length or name", () => {
  assert.deepEqual(stretches([object(100, 200)]), []);
  assert.deepEqual(stretches([object(0, 100, 99)]), []);
  const strange = { key: "uploads/org_1/rel_1/notes.txt", size: 5, stored_at };
  assert.deepEqual(chainOf([strange, object(0, 8)]).strays, [strange.key]);
});

test("uses segments of 8 MiB, or larger ones if an upload would exceed 10,000 parts", () => {
  assert.deepEqual([segmentBytes(0), segmentBytes(50 * 1024 * MIB), segmentBytes(Infinity)], [8 * MIB, 8 * MIB, 512 * MIB]);
  for (const bytes of [70_000 * MIB, 72_001 * MIB, 4_000_000 * MIB]) assert.ok(bytes / segmentBytes(bytes) <= 9_000);
});

test("forEachOf limits concurrent calls; after an error, it waits for the running calls and then rejects", async () => {
  let [running, most, ended] = [0, 0, 0];
  const work = async (item: number): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    ended += 1;
    if (item === 4) throw new Error("planned");
  };
  await forEachOf([1, 2, 3], 2, work);
  assert.deepEqual([most, ended], [2, 3]);
  await assert.rejects(forEachOf([4, 5, 6, 7], 2, work), /planned/);
  assert.deepEqual([running, ended], [0, 5]);
});
