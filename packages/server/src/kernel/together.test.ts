import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { PIECES_EVERY_MS, Together, type TogetherOptions } from "./together.ts";

const LIMIT = { timeout: 60_000 };

/** Work that is done when it is told to be; each answer is the item with its place. */
function slow(options: Partial<TogetherOptions<string, string>> = {}) {
  const pieces: { key: string; items: readonly string[]; done: () => void; fail: (error: Error) => void }[] = [];
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const together = new Together<string, string>({
    clock,
    items_max: 3,
    at_once: 2,
    work: (key, items) =>
      new Promise((resolve, reject) => {
        pieces.push({ key, items, done: () => resolve(items.map((item, i) => `${item}:${i}`)), fail: reject });
      }),
    ...options,
  });
  /** Until nothing more begins by itself. */
  const settle = (): Promise<void> => turn().then(() => clock.advance({ milliseconds: PIECES_EVERY_MS }));
  return { clock, together, pieces, settle };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("what comes alone is done at once, and what comes meanwhile together, so many at a time", LIMIT, async () => {
  const { together, pieces, settle } = slow();
  const asked = ["a", "b", "c", "d", "e"].map((item) => together.ask("org", item));
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

test("keys take turns, as many at the same time as may be", LIMIT, async () => {
  const { together, pieces, settle } = slow();
  for (const key of ["x", "x", "y", "z", "x", "z"]) void together.ask(key, key);
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

test("two of one name are never done together, and keep their order", LIMIT, async () => {
  const { together, pieces, settle } = slow({ items_max: 10, nameOf: (item) => item.slice(0, 1) });
  void together.ask("org", "first");
  for (const item of ["a1", "b1", "a2", "a3", "b2"]) void together.ask("org", item);
  for (let i = 0; i < 3; i += 1) {
    pieces[i]!.done();
    await settle();
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

test("while more is asked pieces of a key begin so far apart, and another key does not wait for that", LIMIT, async () => {
  const { clock, together, pieces } = slow();
  const begun = (): string[] => pieces.map(({ items }) => items.join(""));
  for (const item of ["a", "b"]) void together.ask("org", item);
  pieces[0]!.done();
  await turn();
  void together.ask("org", "c");
  void together.ask("other", "x");
  await clock.advance({ milliseconds: PIECES_EVERY_MS - 1 });
  assert.deepEqual(begun(), ["a", "x"]);
  await clock.advance({ milliseconds: 1 });
  assert.deepEqual(begun(), ["a", "x", "bc"]);
  pieces[2]!.done();
  await turn();
  void together.ask("org", "d");
  assert.deepEqual(begun(), ["a", "x", "bc", "d"], "nothing waited when the piece before ended");
});

test("a whole piece does not wait for its time", LIMIT, async () => {
  const { together, pieces } = slow();
  for (const item of ["a", "b", "c"]) void together.ask("org", item);
  pieces[0]!.done();
  await turn();
  assert.equal(pieces.length, 1);
  void together.ask("org", "d");
  assert.deepEqual(pieces[1]?.items, ["b", "c", "d"]);
});

test("a whole piece that did not wait for its time is the one from which the next keeps its distance", LIMIT, async () => {
  const { clock, together, pieces } = slow();
  for (const item of ["a", "b", "c"]) void together.ask("org", item);
  pieces[0]!.done();
  await clock.advance({ milliseconds: PIECES_EVERY_MS - 1 });
  for (const item of ["d", "e"]) void together.ask("org", item);
  assert.deepEqual(pieces[1]?.items, ["b", "c", "d"]);
  pieces[1].done();
  await clock.advance({ milliseconds: PIECES_EVERY_MS - 1 });
  assert.equal(pieces.length, 2, "the first piece's distance is over, and not the second's");
  await clock.advance({ milliseconds: 1 });
  assert.deepEqual(pieces[2]?.items, ["e"]);
});

test("what cannot be done in one piece does not wait for more", LIMIT, async () => {
  const { clock, together, pieces } = slow({ nameOf: (item) => item.slice(0, 1) });
  for (const item of ["a1", "b1"]) void together.ask("org", item);
  pieces[0]!.done();
  await turn();
  assert.equal(pieces.length, 1);
  void together.ask("org", "b2");
  assert.deepEqual(pieces[1]?.items, ["b1"]);
  void together.ask("org", "b3");
  pieces[1].done();
  await turn();
  assert.deepEqual(pieces[2]?.items, ["b2"]);
  pieces[2].done();
  await clock.advance({ milliseconds: PIECES_EVERY_MS });
  assert.deepEqual(pieces[3]?.items, ["b3"]);
});

test("work that does not rest goes on as soon as the piece before has ended", LIMIT, async () => {
  const { together, pieces } = slow({ rests: false });
  for (const item of ["a", "b"]) void together.ask("org", item);
  pieces[0]!.done();
  await turn();
  assert.deepEqual(pieces[1]?.items, ["b"]);
});
