import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import {
  FrameRateLimiter,
  LINK_FRAMES,
  LINK_OPEN_COST,
  ORG_FRAMES,
  PauseReason,
  type RateLimited,
  ReadValve,
  WorkBudget,
  WorkQueue,
} from "./read-limits.ts";

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

test("stops processing a link's messages after one fails, because an acknowledgment covers all earlier ones", async () => {
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
        // In the next turn of the event loop, the messages queued behind the failed one would have run.
        setImmediate(resolve);
      },
    );
  await promise;
  assert.deepEqual(taken, [1]);
  assert.equal(failures.length, 1);
});

test("pauses a link with too many pending messages until most of them are processed", async () => {
  const robot = socket();
  const queue = new WorkQueue(new ReadValve(robot), new WorkBudget(), "org_1");
  const gate = Promise.withResolvers<void>();
  for (let i = 0; i < 32; i += 1) queue.add(1, i === 0 ? () => gate.promise : async () => {}, () => {});
  assert.deepEqual([robot.paused, robot.resumed], [1, 0]);
  gate.reject(new Error("planned: the first fails"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([robot.paused, robot.resumed], [1, 1]);
});

test("pauses a link with too many pending bytes, even if there are few messages", async () => {
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

test("pending messages of one org may use at most as many bytes as remain free", async () => {
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

const linkOf = (org_id: string, robot_id?: string): RateLimited => ({
  org_id,
  ...(robot_id === undefined ? {} : { robot_id }),
  valve: new ReadValve({ pause: () => {}, resume: () => {} }),
  frames: undefined,
});
const rests = (link: RateLimited): boolean => link.valve.isPausedFor(PauseReason.rate);

test("pauses only the link that exceeds its rate, until its token bucket is refilled", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FrameRateLimiter(clock);
  const [flood, calm] = [linkOf("org_1"), linkOf("org_1")];
  for (let i = 0; i < LINK_FRAMES.burst; i += 1) pace.take(flood, 1);
  assert.equal(rests(flood), false);
  pace.take(flood, LINK_FRAMES.per_minute / 120);
  pace.take(calm, 1);
  assert.deepEqual([rests(flood), rests(calm)], [true, false]);
  await clock.advance({ milliseconds: 499 });
  assert.equal(rests(flood), true);
  await clock.advance({ milliseconds: 2 });
  assert.equal(rests(flood), false);
});

test("pauses only the links of the org that exceeds its rate", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FrameRateLimiter(clock);
  const links = Array.from({ length: 20 }, () => linkOf("org_1"));
  const other = linkOf("org_2");
  for (const link of links) pace.take(link, ORG_FRAMES.burst / 16);
  pace.take(other, 1);
  assert.deepEqual([links.some(rests), rests(other)], [true, false]);
  await clock.advance({ seconds: 5 });
  assert.equal(links.some(rests), false);
});

test("keeps the rate limit debt of a robot that reconnects", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FrameRateLimiter(clock);
  pace.take(linkOf("org_1", "rbt_1"), LINK_FRAMES.burst);
  const [next, other] = [linkOf("org_1", "rbt_1"), linkOf("org_1", "rbt_2")];
  pace.take(next, LINK_FRAMES.per_minute / 60);
  pace.take(other, LINK_FRAMES.per_minute / 60);
  assert.deepEqual([rests(next), rests(other)], [true, false]);
  await clock.advance({ milliseconds: 1_001 });
  assert.equal(rests(next), false);
});

test("keeps the rate limit debt of a robot while the maximum number of robots connects", () => {
  const robots_max = 60_000;
  const pace = new FrameRateLimiter(new SimulatedClock({ at: "2030-01-01T00:00:00Z" }), robots_max);
  while (pace.open("rbt_1") === 0);
  for (let i = 2; i <= robots_max; i += 1) pace.open(`rbt_${i}`);
  assert.ok(pace.open("rbt_1") > 0);
});

test("limits how often one robot may open a link, without affecting other robots", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FrameRateLimiter(clock);
  let opened = 0;
  while (pace.open("rbt_1") === 0) opened += 1;
  assert.equal(opened, Math.ceil(LINK_FRAMES.burst / LINK_OPEN_COST));
  assert.equal(pace.open("rbt_2"), 0);
  await clock.advance({ milliseconds: Math.ceil(pace.open("rbt_1")) });
  assert.equal(pace.open("rbt_1"), 0);
});
