import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { PIECES_EVERY_MS, Together, type TogetherOptions } from "./together.ts";

const LIMIT = { timeout: 60_000 };

/** A batcher whose work the test completes. Each result is the item with its position. */
function slow(options: Partial<TogetherOptions<string, string>> = {}) {
  const pieces: { key: string; items: readonly string[]; done: () => void; fail: (error: Error) => void }[] = [];
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const batcher = new Together<string, string>({
    clock,
    items_max: 3,
    at_once: 2,
    work: (key, items) =>
      new Promise((resolve, reject) => {
        pieces.push({ key, items, done: () => resolve(items.map((item, i) => `${item}:${i}`)), fail: reject });
      }),
    ...options,
  });
  /** Waits until nothing more starts automatically. */
  const settle = (): Promise<void> => turn().then(() => clock.advance({ milliseconds: PIECES_EVERY_MS }));
  return { clock, batcher, pieces, settle };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("processes a single item immediately, and those that arrive meanwhile in batches of limited size", LIMIT, async () => {
  const { batcher, pieces, settle } = slow();
  const asked = ["a", "b", "c", "d", "e"].map((item) => batcher.ask("org", item));
  assert.deepEqual(
    pieces.map(({ items }) => items),
    [["a"]],
  );
  pieces[0]!.done();
  await settle();
  pieces[1]!.done();
  await settle();
  pieces[2]!.done();
  assert.deepEqual(await Promise.all(asked), ["a:0", "b:0", "c:1", "d:2", "e:0"]);
});

test("keys alternate, and a limited number of them runs concurrently", LIMIT, async () => {
  const { batcher, pieces, settle } = slow();
  for (const key of ["x", "x", "y", "z", "x", "z"]) void batcher.ask(key, key);
  assert.deepEqual(
    pieces.map(({ key }) => key),
    ["x", "y"],
  );
  pieces[0]!.done();
  await settle();
  pieces[1]!.done();
  await settle();
  assert.deepEqual(
    pieces.slice(2).map(({ key, items }) => [key, items.length]),
    [
      ["z", 2],
      ["x", 2],
    ],
  );
});

test("items of one name are never in one batch, and keep their order", LIMIT, async () => {
  const { batcher, pieces, settle } = slow({ items_max: 10, nameOf: (item) => item.slice(0, 1) });
  void batcher.ask("org", "first");
  for (const item of ["a1", "b1", "a2", "a3", "b2"]) void batcher.ask("org", item);
  for (let i = 0; i < 3; i += 1) {
    pieces[i]!.done();
    await settle();
  }
  assert.deepEqual(
    pieces.map(({ items }) => items),
    [["first"], ["a1", "b1"], ["a2", "b2"], ["a3"]],
  );
});

test("rejects only the item that causes an error; an error that concerns all rejects the whole batch immediately", LIMIT, async () => {
  let calls = 0;
  const batcher = new Together<string, string>({
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
  const first = await Promise.allSettled(["1", "2", "bad", "4"].map((item) => batcher.ask("org", item)));
  assert.deepEqual(
    first.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected", "fulfilled"],
  );
  await turn();
  calls = 0;
  const second = await Promise.allSettled(["1", "2", "gone", "4"].map((item) => batcher.ask("org", item)));
  assert.deepEqual(
    second.map(({ status }) => status),
    ["fulfilled", "rejected", "rejected", "rejected"],
  );
  assert.equal(calls, 2);
});

test("batches of a key start at the minimum interval under load, without delaying other keys", LIMIT, async () => {
  const { clock, batcher, pieces } = slow();
  const begun = (): string[] => pieces.map(({ items }) => items.join(""));
  for (const item of ["a", "b"]) void batcher.ask("org", item);
  pieces[0]!.done();
  await turn();
  void batcher.ask("org", "c");
  void batcher.ask("other", "x");
  await clock.advance({ milliseconds: PIECES_EVERY_MS - 1 });
  assert.deepEqual(begun(), ["a", "x"]);
  await clock.advance({ milliseconds: 1 });
  assert.deepEqual(begun(), ["a", "x", "bc"]);
  pieces[2]!.done();
  await turn();
  void batcher.ask("org", "d");
  assert.deepEqual(begun(), ["a", "x", "bc", "d"], "nothing waited when the piece before ended");
});

test("a full batch does not wait for the interval", LIMIT, async () => {
  const { batcher, pieces } = slow();
  for (const item of ["a", "b", "c"]) void batcher.ask("org", item);
  pieces[0]!.done();
  await turn();
  assert.equal(pieces.length, 1);
  void batcher.ask("org", "d");
  assert.deepEqual(pieces[1]?.items, ["b", "c", "d"]);
});

test("the interval counts from a full batch that did not wait", LIMIT, async () => {
  const { clock, batcher, pieces } = slow();
  for (const item of ["a", "b", "c"]) void batcher.ask("org", item);
  pieces[0]!.done();
  await clock.advance({ milliseconds: PIECES_EVERY_MS - 1 });
  for (const item of ["d", "e"]) void batcher.ask("org", item);
  assert.deepEqual(pieces[1]?.items, ["b", "c", "d"]);
  pieces[1].done();
  await clock.advance({ milliseconds: PIECES_EVERY_MS - 1 });
  assert.equal(pieces.length, 2, "the first piece's distance is over, and not the second's");
  await clock.advance({ milliseconds: 1 });
  assert.deepEqual(pieces[2]?.items, ["e"]);
});

test("skips the delay when items cannot share a batch", LIMIT, async () => {
  const { clock, batcher, pieces } = slow({ nameOf: (item) => item.slice(0, 1) });
  for (const item of ["a1", "b1"]) void batcher.ask("org", item);
  pieces[0]!.done();
  await turn();
  assert.equal(pieces.length, 1);
  void batcher.ask("org", "b2");
  assert.deepEqual(pieces[1]?.items, ["b1"]);
  void batcher.ask("org", "b3");
  pieces[1].done();
  await turn();
  assert.deepEqual(pieces[2]?.items, ["b2"]);
  pieces[2].done();
  await clock.advance({ milliseconds: PIECES_EVERY_MS });
  assert.deepEqual(pieces[3]?.items, ["b3"]);
});

test("without a minimum interval, the next batch starts as soon as the previous one ends", LIMIT, async () => {
  const { batcher, pieces } = slow({ rests: false });
  for (const item of ["a", "b"]) void batcher.ask("org", item);
  pieces[0]!.done();
  await turn();
  assert.deepEqual(pieces[1]?.items, ["b"]);
});
