import assert from "node:assert/strict";
import { test } from "node:test";
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
  const queue = new WorkQueue(socket());
  const taken: number[] = [];
  const failures: unknown[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const seq of [1, 2, 3])
    queue.add(
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
  const queue = new WorkQueue(robot);
  const gate = Promise.withResolvers<void>();
  for (let i = 0; i < 32; i += 1) queue.add(i === 0 ? () => gate.promise : async () => {}, () => {});
  assert.deepEqual([robot.paused, robot.resumed], [1, 0]);
  gate.reject(new Error("planned: the first fails"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([robot.paused, robot.resumed], [1, 1]);
});
