import assert from "node:assert/strict";
import { test } from "node:test";
import { ReadValve } from "./read-valve.ts";
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

test("processes no message after a failed one, because an acknowledgement covers all earlier messages", async () => {
  const queue = new WorkQueue(new ReadValve(socket()), new WorkBudget(), "org_1");
  const taken: number[] = [];
  const failures: unknown[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const seq of [1, 2, 3])
    queue.add(
      1,
      async () => {
        if (seq === 2) throw new Error("planned: the database is down");
        taken.push(seq);
      },
      (error) => {
        failures.push(error);
        // By then the messages queued behind it would have run.
        setImmediate(resolve);
      },
    );
  await promise;
  assert.deepEqual(taken, [1]);
  assert.equal(failures.length, 1);
});

test("pauses a socket with too many pending messages until most are processed, also after one failed", async () => {
  const robot = socket();
  const queue = new WorkQueue(new ReadValve(robot), new WorkBudget(), "org_1");
  const gate = Promise.withResolvers<void>();
  for (let i = 0; i < 32; i += 1) queue.add(1, i === 0 ? () => gate.promise : async () => {}, () => {});
  assert.deepEqual([robot.paused, robot.resumed], [1, 0]);
  gate.reject(new Error("planned: the first fails"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([robot.paused, robot.resumed], [1, 1]);
});

test("pauses a socket with too many pending bytes, even if they are few messages", async () => {
  const robot = socket();
  const queue = new WorkQueue(new ReadValve(robot), new WorkBudget(), "org_1");
  const gate = Promise.withResolvers<void>();
  queue.add(
    2 * 1024 * 1024,
    () => gate.promise,
    () => {},
  );
  assert.deepEqual([robot.paused, robot.resumed], [1, 0]);
  gate.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([robot.paused, robot.resumed], [1, 1]);
});

test("an org may take as much of the budget as is free, so that another org still finds room", async () => {
  const budget = new WorkBudget(100);
  const orgs = ["org_a", "org_a", "org_b"];
  const robots = orgs.map(() => socket());
  const valves = robots.map((robot) => new ReadValve(robot));
  const queues = valves.map((valve, i) => new WorkQueue(valve, budget, orgs[i]!));
  const gates = robots.map(() => Promise.withResolvers<void>());
  const add = (robot: number, bytes: number): void =>
    queues[robot]!.add(
      bytes,
      () => gates[robot]!.promise,
      () => {},
    );
  add(0, 30);
  add(1, 30);
  add(2, 15);
  assert.deepEqual(
    robots.map(({ paused }) => paused),
    [0, 1, 0],
    "the robot that took its org beyond what is free",
  );
  assert.deepEqual([budget.bytes, budget.held], [75, 1]);
  gates[0]!.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([budget.bytes, budget.held, robots[1]!.resumed], [45, 1, 0], "30 bytes are more than half of what is free");
  gates[2]!.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([budget.bytes, budget.held, robots[1]!.resumed], [30, 0, 1]);
  gates[1]!.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([budget.bytes, budget.held], [0, 0]);
});
