import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { test } from "node:test";
import { SharedReads } from "./share.ts";

test("callers during a read share the next read, also if the present one fails", async () => {
  const shared = new SharedReads<number>();
  let begun = 0;
  const ends: PromiseWithResolvers<void>[] = [];
  const work = async (): Promise<number> => {
    begun += 1;
    const mine = begun;
    ends.push(Promise.withResolvers());
    await ends.at(-1)!.promise;
    return mine;
  };
  const first = shared.read("a", work);
  const later = [shared.read("a", work), shared.read("a", work)];
  const other = shared.read("b", work);
  assert.equal(begun, 2);
  ends[1]?.resolve();
  assert.equal(await other, 2);
  ends[0]?.reject(new Error("gone"));
  await assert.rejects(first, /gone/);
  await setImmediate();
  assert.equal(begun, 3);
  const last = shared.read("a", work);
  ends[2]?.resolve();
  assert.deepEqual(await Promise.all(later), [3, 3]);
  await setImmediate();
  ends[3]?.resolve();
  assert.equal(await last, 4);
  const again = shared.read("a", work);
  ends[4]?.resolve();
  assert.equal(await again, 5);
});
