import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { AddressShares, AdmissionQueue, type AdmissionSlot } from "./admission-queue.ts";

const fill = (shares: AddressShares, address: (i: number) => string): (() => void)[] => {
  const held: (() => void)[] = [];
  while (shares.hasRoom(address(held.length))) held.push(shares.take(address(held.length)));
  return held;
};

test("one network takes at most half of the free slots, so that other networks find free slots", () => {
  const shares = new AddressShares(1_000);
  const first = fill(shares, () => "192.0.2.1");
  assert.equal(first.length, 500);
  const second = fill(shares, () => "192.0.2.2");
  assert.equal(second.length, 250);
  assert.equal(shares.hasRoom("192.0.2.3"), true);
  for (const release of [...first, ...first]) release();
  assert.equal(shares.taken, 250);
  assert.equal(shares.hasRoom("192.0.2.1"), true);
});

test("addresses of one IPv6 /64 share one quota of admissions", () => {
  const shares = new AddressShares(100);
  assert.equal(fill(shares, (i) => `2001:db8:1:2::${i.toString(16)}`).length, 50);
  assert.equal(shares.hasRoom("2001:db8:1:3::1"), true);
});

const ANYWHERE = { network: "192.0.2.1", hasRoom: () => true };

const clockAt = (): SimulatedClock => new SimulatedClock({ at: "2030-01-01T00:00:00Z" });

/**
 * Simulates robots that connect to a node at the same time. The node works sequentially: `handshake_ms` for each attempt, `admit_ms`
 * for each admission. Robots that are sent away retry after the delay of the response.
 */
function storm({
  robots,
  per_second,
  admit_ms,
  handshake_ms = 0,
}: {
  robots: number;
  per_second: number;
  admit_ms: number;
  handshake_ms?: number;
}) {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, per_second);
  const seen = { in_at: [] as number[], asked: 0, running: 0, running_most: 0, queued_most: 0, waited_most: 0 };
  const work: { takes_ms: number; done: () => void }[] = [];
  let busy = false;
  const workOn = (): void => {
    const next = work.shift();
    busy = next !== undefined;
    if (next !== undefined) clock.setTimer(next.takes_ms, () => (next.done(), workOn()));
  };
  const todo = (takes_ms: number, done: () => void): void => {
    work.push({ takes_ms, done });
    if (!busy) workOn();
  };
  const ask = (slot?: string): void => {
    const asked_at = clock.monotonic();
    const sendAway = (booking: AdmissionSlot): void => {
      seen.waited_most = Math.max(seen.waited_most, clock.monotonic() - asked_at);
      clock.setTimer(booking.retry_after_ms, () => come(booking.slot));
    };
    const enter = (): boolean => {
      seen.waited_most = Math.max(seen.waited_most, clock.monotonic() - asked_at);
      queue.started();
      seen.running += 1;
      seen.running_most = Math.max(seen.running_most, seen.running);
      todo(admit_ms, () => {
        seen.in_at.push(clock.monotonic());
        seen.running -= 1;
        queue.ended();
      });
      return true;
    };
    const answer = queue.request({ ...ANYWHERE, slot, enter, sendAway });
    if (answer.to === "later") sendAway(answer.booking);
    seen.queued_most = Math.max(seen.queued_most, queue.queued);
  };
  const come = (slot?: string): void => {
    seen.asked += 1;
    if (handshake_ms === 0) ask(slot);
    else todo(handshake_ms, () => ask(slot));
  };
  for (let i = 0; i < robots; i += 1) come();
  const last = async (): Promise<number> => {
    for (let s = 0; seen.in_at.length < robots && s < 600; s += 1) await clock.advance({ seconds: 1 });
    assert.equal(seen.in_at.length, robots);
    return seen.in_at.at(-1) ?? 0;
  };
  return { queue, seen, last };
}

test("admits thousands of robots at the maximum speed of the node, with few retries", async () => {
  const { queue, seen, last } = storm({ robots: 15_000, per_second: 500, admit_ms: 3.5, handshake_ms: 1 });
  const took_ms = await last();
  assert.ok(took_ms <= 15_000 * 4.5 * 1.15, `${took_ms} ms`);
  assert.ok(seen.asked <= 1.6 * 15_000, `${seen.asked} attempts`);
  assert.ok(seen.waited_most <= 45_000, `${seen.waited_most} ms in line`);
  assert.deepEqual([queue.booked, queue.queued], [0, 0]);
});

test("a node that is faster than the rate limit admits all robots at their first attempt", async () => {
  const { seen, last } = storm({ robots: 6_000, per_second: 200, admit_ms: 1, handshake_ms: 0.5 });
  const took_ms = await last();
  assert.ok(took_ms <= 30_000 * 1.1, `${took_ms} ms`);
  assert.equal(seen.asked, 6_000);
});

test("a node that is slower than the rate limit admits robots at its maximum speed", async () => {
  const { seen, last } = storm({ robots: 2_000, per_second: 500, admit_ms: 25, handshake_ms: 2 });
  const took_ms = await last();
  // About 37 robots per second, with a tolerance of 10%.
  assert.ok(took_ms <= 2_000 * 27 * 1.1, `${took_ms} ms`);
  // Each admission ends before a robot's timeout for the welcome message.
  assert.ok(seen.running_most * 25 < 10_000, `${seen.running_most} under way`);
});

test("a robot that returns at its reserved time is not sent away again despite other requests", async () => {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, 10);
  let entered = 0;
  const ask = (slot?: string) => queue.request({ ...ANYWHERE, slot, enter: () => (entered += 1) > 0, sendAway: () => {} });
  let answer = ask();
  while (answer.to !== "later") answer = ask();
  for (let i = 0; i < 100; i += 1) answer = ask();
  assert.ok(answer.to === "later");
  const { booking } = answer;
  assert.ok(booking.retry_after_ms > 5_000);
  const early = ask(booking.slot);
  assert.ok(early.to === "later" && early.booking.slot === booking.slot);
  assert.ok(Math.abs(early.booking.retry_after_ms - booking.retry_after_ms) <= 101);
  assert.equal(ask("made up").to, "later");
  // The queue advances while other robots connect.
  for (let ms = 0; ms < booking.retry_after_ms; ms += 100) {
    ask();
    await clock.advance({ milliseconds: 100 });
  }
  assert.notEqual(ask(booking.slot).to, "later");
  assert.equal(ask(booking.slot).to, "later", "a slot lets in once");
});

test("a robot that leaves the admission queue is not admitted, and closing the queue sends the other robots away", async () => {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, 1);
  const seen: string[] = [];
  const ask = (name: string) =>
    queue.request({
      ...ANYWHERE,
      slot: undefined,
      enter: () => seen.push(`${name} in`) > 0,
      sendAway: ({ slot }) => seen.push(`${name} away ${typeof slot}`),
    });
  ask("first");
  const second = ask("second");
  ask("third");
  ask("fourth");
  assert.ok(second.to === "queued");
  second.leave();
  await clock.advance({ milliseconds: 1_000 });
  assert.deepEqual(seen, ["first in", "third in"]);
  queue.close();
  assert.deepEqual(seen, ["first in", "third in", "fourth away string"]);
});

test("sends robots away when an admission hangs, and limits the number of reserved slots", async () => {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, 10);
  let away = 0;
  for (let i = 0; i < 5_000; i += 1)
    queue.request({ ...ANYWHERE, slot: undefined, enter: () => (queue.started(), true), sendAway: () => (away += 1) });
  assert.ok(queue.booked <= 600, `${queue.booked} slots are booked`);
  await clock.advance({ seconds: 120 });
  assert.equal(queue.queued, 0);
  assert.ok(away > 0);
  assert.ok(queue.rate < 10, `a rate of ${queue.rate}`);
});

test("admits every robot if there is no rate limit", () => {
  const queue = new AdmissionQueue(clockAt(), 0);
  for (let i = 0; i < 10_000; i += 1)
    assert.equal(queue.request({ ...ANYWHERE, slot: undefined, enter: () => true, sendAway: () => {} }).to, "entered");
});

test("admitted links that stay silent do not slow down further admissions", async () => {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, 500);
  let robots = 0;
  const robot = (): boolean => {
    queue.started();
    clock.setTimer(1, () => queue.ended());
    return (robots += 1) > 0;
  };
  for (let tick = 0; tick < 1_000; tick += 1) {
    // 1,000 silent links and 100 robots per second.
    for (let i = 0; i < 20; i += 1) queue.request({ ...ANYWHERE, slot: undefined, enter: () => true, sendAway: () => {} });
    for (let i = 0; i < 2; i += 1) queue.request({ ...ANYWHERE, slot: undefined, enter: robot, sendAway: () => {} });
    await clock.advance({ milliseconds: 20 });
  }
  assert.equal(queue.rate, 500);
});

test("if a robot has disconnected when it is admitted, the next robot in the queue is admitted instead", async () => {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, 10);
  const seen: number[] = [];
  for (let i = 0; i < 20; i += 1)
    queue.request({ ...ANYWHERE, slot: undefined, enter: () => (i < 10 || i > 12 ? seen.push(i) > 0 : false), sendAway: () => {} });
  await clock.advance({ seconds: 1 });
  assert.ok(seen.includes(13), seen.join());
  assert.ok(!seen.includes(10));
});

test("robots whose network has no free slot keep their position in the queue while other robots are admitted", async () => {
  const clock = clockAt();
  const queue = new AdmissionQueue(clock, 10);
  const seen: string[] = [];
  let room = 5;
  const hasRoom = (): boolean => room > 0;
  const sendAway = (): void => void seen.push("sent away");
  const full = { network: "192.0.2.1", hasRoom, sendAway, enter: () => (room -= 1) >= 0 && seen.push("full") > 0 };
  const other = { network: "192.0.2.2", hasRoom: () => true, sendAway, enter: () => seen.push("other") > 0 };
  for (let i = 0; i < 20; i += 1) queue.request({ slot: undefined, ...full });
  await clock.advance({ seconds: 5 });
  assert.deepEqual([seen.length, queue.queued], [5, 15]);
  assert.equal(queue.request({ slot: undefined, ...other }).to, "entered");
  room = 2;
  queue.roomFreed();
  await clock.advance({ seconds: 1 });
  assert.deepEqual(seen.slice(5), ["other", "full", "full"]);
  assert.equal(queue.queued, 13);
  // A robot that would wait longer than an agent's timeout gets a reserved slot instead.
  await clock.advance({ seconds: 40 });
  assert.deepEqual([seen.filter((what) => what === "sent away").length, queue.queued], [13, 0]);
});
