import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./until.ts";

const TIMEOUT = { timeout: 120_000 };
const SOON = { deadline_ms: 30, poll_ms: 1 };

test("the first truthy answer is the answer, and nothing is looked at after it", TIMEOUT, async () => {
  const answers = [undefined, false, 0, "", null, "here", "later"];
  assert.equal(await until("an answer", () => answers.shift(), { poll_ms: 1 }), "here");
  assert.deepEqual(answers, ["later"]);
  assert.equal(await until("a promise", async () => 7), 7);
});

test("a wait in vain says what was waited for, what was seen last and what else is known", TIMEOUT, async () => {
  await assert.rejects(
    until("the robot", () => 0, { ...SOON, detail: () => "its log" }),
    /^Error: waited 30 ms in vain for: the robot; last seen: 0\nits log$/,
  );
  await assert.rejects(
    until("the robot", () => new Promise<never>(() => {}), SOON),
    /the look did not end/,
  );
});

test("an error ends the wait at once, unless it means not yet", TIMEOUT, async () => {
  let looks = 0;
  const planned = new Error("planned");
  const fail = async (): Promise<boolean> => {
    looks += 1;
    if (looks < 3) throw planned;
    return true;
  };
  await assert.rejects(until("it", fail), planned);
  assert.equal(looks, 1);
  assert.equal(await until("it", fail, { despite_errors: true }), true);
  looks = -1_000_000;
  await assert.rejects(until("it", fail, { ...SOON, despite_errors: true }), (error: Error) => {
    assert.match(error.message, /last seen: Error: planned/);
    return error.cause === planned;
  });
});

test("what happens meanwhile happens between two looks, and progress starts the deadline anew", TIMEOUT, async () => {
  // Before the first step there is no progress: the deadline is one that a busy machine keeps between two looks.
  const deadline_ms = 300;
  let steps = 0;
  const began = performance.now();
  const look = () => steps > 1 && performance.now() - began > 2 * deadline_ms;
  await until("the steps", look, { deadline_ms, poll_ms: 1, meanwhile: () => (steps += 1), progress: () => steps });
});
