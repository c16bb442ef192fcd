import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { INTERVAL_MS, KeyedBatcher, type KeyedBatcherOptions } from "./keyed-batcher.ts";

const LIMIT = { timeout: 60_000 };

/** Creates a batcher whose work the test completes. Each result is the item with its position. */
function slow(options: Partial<KeyedBatcherOptions<string, string>> = {}) {
  const batches: { key: string; items: readonly string[]; done: () => void; fail: (error: Error) => void }[] = [];
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const batcher = new KeyedBatcher<string, string>({
    clock,
    items_max: 3,
    concurrency_max: 2,
    work: (key, items) =>
      new Promise((resolve, reject) => {
        batches.push({ key, items, done: () => resolve(items.map((item, i) => `${item}:${i}`)), fail: reject });
      }),
    ...options,
  });
  /** Waits until no further batch starts. */
  const settle = (): Promise<void> => turn().then(() => clock.advance({ milliseconds: INTERVAL_MS.min }));
  return { clock, batcher, batches, settle };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("processes a single item immediately, and items that arrive meanwhile in limited batches", LIMIT, async () => {
  const { batcher, batches, settle } = slow();
  const asked = ["a", "b", "c", "d", "e"].map((item) => batcher.add("org", item));
  assert.deepEqual(
    batches.map(({ items }) => items),
    [["a"]],
  );
  batches[0]!.done();
  await settle();
  batches[1]!.done();
  await settle();
  batches[2]!.done();
  assert.deepEqual(await Promise.all(asked), ["a:0", "b:0", "c:1", "d:2", "e:0"]);
});

test("takes keys in turn, and limits how many of them are processed concurrently", LIMIT, async () => {
  const { batcher, batches, settle } = slow();
  for (const key of ["x", "x", "y", "z", "x", "z"]) void batcher.add(key, key);
  assert.deepEqual(
    batches.map(({ key }) => key),
    ["x", "y"],
  );
  batches[0]!.done();
  await settle();
  batches[1]!.done();
  await settle();
  assert.deepEqual(
    batches.slice(2).map(({ key, items }) => [key, items.length]),
    [
      ["z", 2],
      ["x", 2],
    ],
  );
});

test("puts items with the same uniqueBy key into separate batches, in order", LIMIT, async () => {
  const { batcher, batches, settle } = slow({ items_max: 10, uniqueBy: (item) => item.slice(0, 1) });
  void batcher.add("org", "first");
  for (const item of ["a1", "b1", "a2", "a3", "b2"]) void batcher.add("org", item);
  for (let i = 0; i < 3; i += 1) {
    batches[i]!.done();
    await settle();
  }
  assert.deepEqual(
    batches.map(({ items }) => items),
    [["first"], ["a1", "b1"], ["a2", "b2"], ["a3"]],
  );
});

test("rejects only the failing item, or the whole batch if the error affects all items", LIMIT, async () => {
  let calls = 0;
  const batcher = new KeyedBatcher<string, string>({
    items_max: 8,
    concurrency_max: 1,
    affectsAll: (error) => (error as Error).message === "gone",
    work: async (_key, items) => {
      calls += 1;
      await turn();
      if (items.includes("gone")) throw new Error("gone");
      if (items.includes("bad")) throw new Error("bad");
      return items;
    },
  });
  const first = await Promise.allSettled(["1", "2", "bad", "4"].map((item) => batcher.add("org", item)));
  assert.deepEqual(
    first.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected", "fulfilled"],
  );
  await turn();
  calls = 0;
  const second = await Promise.allSettled(["1", "2", "gone", "4"].map((item) => batcher.add("org", item)));
  assert.deepEqual(
    second.map(({ status }) => status),
    ["fulfilled", "rejected", "rejected", "rejected"],
  );
  assert.equal(calls, 2);
});

test("batches of a key start at the minimum interval under load, without delaying other keys", LIMIT, async () => {
  const { clock, batcher, batches } = slow();
  const begun = (): string[] => batches.map(({ items }) => items.join(""));
  for (const item of ["a", "b"]) void batcher.add("org", item);
  batches[0]!.done();
  await turn();
  void batcher.add("org", "c");
  void batcher.add("other", "x");
  await clock.advance({ milliseconds: INTERVAL_MS.min - 1 });
  assert.deepEqual(begun(), ["a", "x"]);
  await clock.advance({ milliseconds: 1 });
  assert.deepEqual(begun(), ["a", "x", "bc"]);
  batches[2]!.done();
  await turn();
  void batcher.add("org", "d");
  assert.deepEqual(begun(), ["a", "x", "bc", "d"], "nothing waited when the batch before ended");
});

test("the interval grows with the last batch, up to a maximum", LIMIT, async () => {
  const { clock, batcher, batches } = slow({ items_max: 100 });
  const start = async (count: number): Promise<void> => {
    while (batches.length < count) await clock.advance({ milliseconds: 1 });
  };
  /** Returns the time between the starts of a batch of `items` and of the next one. */
  const intervalAfter = async (items: number): Promise<number> => {
    await clock.advance({ milliseconds: INTERVAL_MS.max });
    const before = batches.length;
    for (let i = 0; i < 1 + items; i += 1) void batcher.add("org", "item");
    batches[before]!.done();
    await turn();
    await start(before + 2);
    const since = clock.monotonic();
    assert.equal(batches[before + 1]?.items.length, items);
    void batcher.add("org", "item");
    batches[before + 1]!.done();
    await turn();
    await start(before + 3);
    batches[before + 2]!.done();
    await turn();
    return clock.monotonic() - since;
  };
  assert.equal(await intervalAfter(1), 50);
  assert.equal(await intervalAfter(12), 120);
  assert.equal(await intervalAfter(90), 200);
});

test("a full batch does not wait for the minimum interval", LIMIT, async () => {
  const { batcher, batches } = slow();
  for (const item of ["a", "b", "c"]) void batcher.add("org", item);
  batches[0]!.done();
  await turn();
  assert.equal(batches.length, 1);
  void batcher.add("org", "d");
  assert.deepEqual(batches[1]?.items, ["b", "c", "d"]);
});

test("a full batch that skips the minimum interval restarts it", LIMIT, async () => {
  const { clock, batcher, batches } = slow();
  for (const item of ["a", "b", "c"]) void batcher.add("org", item);
  batches[0]!.done();
  await clock.advance({ milliseconds: INTERVAL_MS.min - 1 });
  for (const item of ["d", "e"]) void batcher.add("org", item);
  assert.deepEqual(batches[1]?.items, ["b", "c", "d"]);
  batches[1].done();
  await clock.advance({ milliseconds: INTERVAL_MS.min - 1 });
  assert.equal(batches.length, 2, "the first batch's distance is over, and not the second's");
  await clock.advance({ milliseconds: 1 });
  assert.deepEqual(batches[2]?.items, ["e"]);
});

test("skips the minimum interval if a new item cannot join the queued batch", LIMIT, async () => {
  const { clock, batcher, batches } = slow({ uniqueBy: (item) => item.slice(0, 1) });
  for (const item of ["a1", "b1"]) void batcher.add("org", item);
  batches[0]!.done();
  await turn();
  assert.equal(batches.length, 1);
  void batcher.add("org", "b2");
  assert.deepEqual(batches[1]?.items, ["b1"]);
  void batcher.add("org", "b3");
  batches[1].done();
  await turn();
  assert.deepEqual(batches[2]?.items, ["b2"]);
  batches[2].done();
  await clock.advance({ milliseconds: INTERVAL_MS.min });
  assert.deepEqual(batches[3]?.items, ["b3"]);
});

test("without a minimum interval, the next batch starts as soon as the previous one ends", LIMIT, async () => {
  const { batcher, batches } = slow({ min_interval_ms: 0 });
  for (const item of ["a", "b"]) void batcher.add("org", item);
  batches[0]!.done();
  await turn();
  assert.deepEqual(batches[1]?.items, ["b"]);
});
