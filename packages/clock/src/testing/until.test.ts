import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./until.ts";

const TIMEOUT = { timeout: 120_000 };
const SOON = { deadline_ms: 30, poll_ms: 1 };

test("until returns the first truthy value and stops polling", TIMEOUT, async () => {
  const answers = [undefined, false, 0, "", null, "here", "later"];
  assert.equal(await until("an answer", () => answers.shift(), { poll_ms: 1 }), "here");
  assert.deepEqual(answers, ["later"]);
  assert.equal(await until("a promise", async () => 7), 7);
});

test("the timeout error of until contains the condition, the last value and the detail", TIMEOUT, async () => {
  await assert.rejects(
    until("the robot", () => 0, { ...SOON, detail: () => "its log" }),
    /^Error: timed out after 30 ms waiting for: the robot; last seen: 0\nits log$/,
  );
  await assert.rejects(
    until("the robot", () => new Promise<never>(() => {}), SOON),
    /the check did not return/,
  );
});

test("an error in the condition ends the wait immediately unless errors are tolerated", TIMEOUT, async () => {
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

test("calls `meanwhile` between polls and restarts the deadline on progress", TIMEOUT, async () => {
  // Before the first step there is no progress: the deadline must be longer than the gap between two polls on a busy machine.
  const deadline_ms = 300;
  let steps = 0;
  const began = performance.now();
  const look = () => steps > 1 && performance.now() - began > 2 * deadline_ms;
  await until("the steps", look, { deadline_ms, poll_ms: 1, meanwhile: () => (steps += 1), progress: () => steps });
});
