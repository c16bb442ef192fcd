import assert from "node:assert/strict";
import { test } from "node:test";
import { WorkBudget } from "./work-budget.ts";
import { WorkQueue } from "./work-queue.ts";

const socket = () => ({
  paused: 0,
  resumed: 0,
  pause: function () {
    this.paused += 1;
  },
  resume: function () {
    this.resumed += 1;
  },
});

test("after a message that could not be taken none is taken: an acknowledgement counts for all before it", async () => {
  const queue = new WorkQueue(socket(), new WorkBudget());
  const taken: number[] = [];
  const failures: unknown[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const seq of [1, 2, 3])
    queue.add(
      1,
      async () => {
        if (seq === 2) throw new Error("planned: the database is away");
        taken.push(seq);
      },
      (error) => {
        failures.push(error);
        // What was queued behind it has had its turn by then.
        setImmediate(resolve);
      },
    );
  await promise;
  assert.deepEqual(taken, [1]);
  assert.equal(failures.length, 1);
});

test("a socket with too many messages waiting is not read until most are dealt with, also after one failed", async () => {
  const robot = socket();
  const queue = new WorkQueue(robot, new WorkBudget());
  const gate = Promise.withResolvers<void>();
  for (let i = 0; i < 32; i += 1) queue.add(1, i === 0 ? () => gate.promise : async () => {}, () => {});
  assert.deepEqual([robot.paused, robot.resumed], [1, 0]);
  gate.reject(new Error("planned: the first fails"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([robot.paused, robot.resumed], [1, 1]);
});

test("of all robots together whoever sends over the budget is not read until half of it is dealt with, or as long as its own queue is full", async () => {
  const budget = new WorkBudget(100);
  const robots = Array.from({ length: 3 }, () => socket());
  const queues = robots.map((robot) => new WorkQueue(robot, budget));
  const gates = robots.map(() => Promise.withResolvers<void>());
  for (const [i, queue] of queues.entries())
    queue.add(
      i === 0 ? 30 : 40,
      () => gates[i]!.promise,
      () => {},
    );
  assert.deepEqual(
    robots.map(({ paused }) => paused),
    [0, 0, 1],
    "the one that went over it",
  );
  for (let i = 0; i < 40; i += 1)
    queues[2]!.add(
      1,
      async () => {},
      () => {},
    );
  assert.deepEqual([budget.bytes, budget.held, queues[2]!.paused], [150, 1, true]);
  gates[0]!.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([budget.bytes, robots[2]!.resumed], [120, 0]);
  gates[2]!.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([budget.bytes, budget.held, robots[2]!.paused, robots[2]!.resumed, queues[2]!.paused], [40, 0, 1, 1, false]);
});
