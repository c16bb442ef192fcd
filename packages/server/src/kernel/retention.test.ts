import assert from "node:assert/strict";
import { test } from "node:test";
import { deleteIsolated } from "./retention.ts";

/** Creates rows that are deleted in a fixed order. The rows in `bad` cannot be deleted. */
function table(rows: number, bad: ReadonlySet<number>) {
  let left = Array.from({ length: rows }, (_, n) => n);
  const remove = async (limit: number, offset: number): Promise<number> => {
    const some = left.slice(offset, offset + limit);
    if (some.some((n) => bad.has(n))) throw new Error("planned");
    left = left.filter((n) => !some.includes(n));
    return some.length;
  };
  return { remove, left: () => left };
}

test("deletes all rows that can be deleted, and reports the failure of the others", async () => {
  const bad = new Set([0, 1, 2, 3_000, 7_001, 11_999]);
  const { remove, left } = table(12_000, bad);
  await assert.rejects(
    deleteIsolated(() => false, remove),
    /planned/,
  );
  assert.deepEqual(left(), [...bad]);
  const all = table(12_000, new Set());
  assert.deepEqual([await deleteIsolated(() => false, all.remove), all.left()], [12_000, []]);
});

test("ends a deletion run immediately on an outage, or after many failures", async () => {
  let tries = 0;
  const fail = (): Promise<number> => Promise.reject(new Error(`try ${(tries += 1)}`));
  await assert.rejects(
    deleteIsolated(() => true, fail),
    /try 1/,
  );
  await assert.rejects(
    deleteIsolated(() => false, fail),
    /try 2/,
  );
  assert.equal(tries, 201);
});
