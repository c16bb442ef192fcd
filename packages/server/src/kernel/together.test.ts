import assert from "node:assert/strict";
import { test } from "node:test";
import { Together, type TogetherOptions } from "./together.ts";

const LIMIT = { timeout: 60_000 };

/** Work that is done when it is told to be; each answer is the item with its place. */
function slow(options: Partial<TogetherOptions<string, string>> = {}) {
  const pieces: { key: string; items: readonly string[]; done: () => void; fail: (error: Error) => void }[] = [];
  const together = new Together<string, string>({
    items_max: 3,
    at_once: 2,
    work: (key, items) =>
      new Promise((resolve, reject) => {
        pieces.push({ key, items, done: () => resolve(items.map((item, i) => `${item}:${i}`)), fail: reject });
      }),
    ...options,
  });
  return { together, pieces };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("what comes alone is done at once, and what comes meanwhile together, so many at a time", LIMIT, async () => {
  const { together, pieces } = slow();
  const asked = ["a", "b", "c", "d", "e"].map((item) => together.ask("org", item));
  assert.deepEqual(
    pieces.map(({ items }) => items),
    [["a"]],
  );
  pieces[0]!.done();
  await turn();
  pieces[1]!.done();
  await turn();
  pieces[2]!.done();
  assert.deepEqual(await Promise.all(asked), ["a:0", "b:0", "c:1", "d:2", "e:0"]);
});

test("keys take turns, as many at the same time as may be", LIMIT, async () => {
  const { together, pieces } = slow();
  for (const key of ["x", "x", "y", "z", "x", "z"]) void together.ask(key, key);
  assert.deepEqual(
    pieces.map(({ key }) => key),
    ["x", "y"],
  );
  pieces[0]!.done();
  await turn();
  pieces[1]!.done();
  await turn();
  assert.deepEqual(
    pieces.slice(2).map(({ key, items }) => [key, items.length]),
    [
      ["x", 2],
      ["z", 2],
    ],
  );
});

test("two of one name are never done together, and keep their order", LIMIT, async () => {
  const { together, pieces } = slow({ items_max: 10, nameOf: (item) => item.slice(0, 1) });
  void together.ask("org", "first");
  for (const item of ["a1", "b1", "a2", "a3", "b2"]) void together.ask("org", item);
  for (let i = 0; i < 3; i += 1) {
    pieces[i]!.done();
    await turn();
  }
  assert.deepEqual(
    pieces.map(({ items }) => items),
    [["first"], ["a1", "b1"], ["a2", "b2"], ["a3"]],
  );
});

test("an error that is one item's fault is only that item's; one that concerns all is everybody's, at once", LIMIT, async () => {
  let calls = 0;
  const together = new Together<string, string>({
    items_max: 8,
    at_once: 1,
    concernsAll: (error) => (error as Error).message === "gone",
    work: async (_key, items) => {
      calls += 1;
      await turn();
      if (items.includes("gone")) throw new Error("gone");
      if (items.includes("bad")) throw new Error("bad");
      return items;
    },
  });
  const first = await Promise.allSettled(["1", "2", "bad", "4"].map((item) => together.ask("org", item)));
  assert.deepEqual(
    first.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected", "fulfilled"],
  );
  await turn();
  calls = 0;
  const second = await Promise.allSettled(["1", "2", "gone", "4"].map((item) => together.ask("org", item)));
  assert.deepEqual(
    second.map(({ status }) => status),
    ["fulfilled", "rejected", "rejected", "rejected"],
  );
  assert.equal(calls, 2);
});
