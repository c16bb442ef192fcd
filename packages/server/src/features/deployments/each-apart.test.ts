import assert from "node:assert/strict";
import { test } from "node:test";
import { eachApart, Postponed } from "./each-apart.ts";

const START = Date.parse("2030-01-01T00:00:00Z");
const at = (seconds: number): Date => new Date(START + seconds * 1_000);

test("a failing item is postponed by 5 s, then twice as long each time up to 5 minutes; a success resets that", () => {
  const postponed = new Postponed();
  let seconds = 0;
  const waits = Array.from({ length: 9 }, () => {
    postponed.failed("one", at(seconds));
    const from = seconds;
    while (postponed.ids(at(seconds)).includes("one")) seconds += 1;
    return seconds - from;
  });
  assert.deepEqual(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
  postponed.succeeded("one");
  postponed.failed("one", at(seconds));
  assert.deepEqual(postponed.ids(at(seconds + 5)), []);
});

test("failures are logged once a minute, and all other items are still processed", async () => {
  const postponed = new Postponed();
  const logged: unknown[] = [];
  let seconds = 0;
  const context = { clock: { now: () => at(seconds) }, log: { error: (line: unknown) => logged.push(line) } };
  const done: string[] = [];
  const items = ["bad", "good", "worse"].map((id) => ({ org_id: "org", id }));
  const turn = () =>
    eachApart(
      context as unknown as Parameters<typeof eachApart>[0],
      postponed,
      items,
      ({ id }) => id,
      ({ id }) => {
        if (id !== "good") return Promise.reject(new Error("planned"));
        done.push(id);
        return Promise.resolve();
      },
    );
  await turn();
  seconds = 59;
  await turn();
  assert.deepEqual([done.length, logged.length], [2, 1]);
  seconds = 60;
  await turn();
  assert.equal(logged.length, 2);
});
