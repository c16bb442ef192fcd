import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@robofleet/clock";
import { AcceptSlots, type Booking } from "./accept-slots.ts";

const clockAt = (): SimulatedClock => new SimulatedClock({ at: "2030-01-01T00:00:00Z" });

/** Robots that come at once to a node that takes `admit_ms` for each, one after the other, and obey what they are told. */
function storm({ robots, per_second, admit_ms }: { robots: number; per_second: number; admit_ms: number }) {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, per_second);
  const seen = { in_at: [] as number[], asked: 0, under_way_most: 0, in_line_most: 0, booked_most: 0 };
  const queue: (() => void)[] = [];
  let busy = false;
  const admitNext = (): void => {
    const done = queue.shift();
    busy = done !== undefined;
    if (done !== undefined) clock.setTimer(admit_ms, () => (done(), admitNext()));
  };
  const come = (slot?: string): void => {
    seen.asked += 1;
    const sendAway = (booking: Booking): void => void clock.setTimer(booking.retry_after_ms, () => come(booking.slot));
    const enter = (): void => {
      slots.begun();
      queue.push(() => {
        seen.in_at.push(clock.monotonic());
        slots.ended();
      });
      seen.under_way_most = Math.max(seen.under_way_most, queue.length);
      if (!busy) admitNext();
    };
    const answer = slots.ask({ slot, enter, sendAway });
    if (answer.to === "later") sendAway(answer.booking);
    seen.in_line_most = Math.max(seen.in_line_most, slots.in_line);
    seen.booked_most = Math.max(seen.booked_most, slots.booked);
  };
  for (let i = 0; i < robots; i += 1) come();
  const last = async (): Promise<number> => {
    for (let s = 0; seen.in_at.length < robots && s < 300; s += 1) await clock.advance({ seconds: 1 });
    assert.equal(seen.in_at.length, robots);
    return (seen.in_at.at(-1) ?? 0) - (seen.in_at[0] ?? 0);
  };
  return { slots, seen, last };
}

const ROBOTS = 6_000;

test("robots that come at once are in after what the node takes for them, most at the second attempt", async () => {
  const { slots, seen, last } = storm({ robots: ROBOTS, per_second: 200, admit_ms: 5 });
  const took_ms = await last();
  assert.ok(took_ms <= ROBOTS * 5 * 1.2, `${took_ms} ms`);
  assert.ok(seen.asked <= 2.5 * ROBOTS, `${seen.asked} attempts`);
  assert.ok(seen.in_line_most <= 2_000, `${seen.in_line_most} in line`);
  assert.deepEqual([slots.booked, slots.in_line], [0, 0]);
});

test("a node that manages fewer than the limit lets in so many, and has few admissions under way at a time", async () => {
  const { seen, last } = storm({ robots: 2_000, per_second: 500, admit_ms: 25 });
  const took_ms = await last();
  // 40 a second, all of the time but for a tenth of it.
  assert.ok(took_ms <= 2_000 * 25 * 1.1, `${took_ms} ms`);
  // Each is done within what a robot waits for its welcome.
  assert.ok(seen.under_way_most * 25 < 10_000, `${seen.under_way_most} under way`);
});

test("who comes at its slot waits in line although others ask all the time; who comes too early is told the same slot", async () => {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, 10);
  let entered = 0;
  const ask = (slot?: string) => slots.ask({ slot, enter: () => (entered += 1), sendAway: () => {} });
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
  // The line moves on, and others ask all the time.
  for (let ms = 0; ms < booking.retry_after_ms; ms += 100) {
    ask();
    await clock.advance({ milliseconds: 100 });
  }
  assert.notEqual(ask(booking.slot).to, "later");
  assert.equal(ask(booking.slot).to, "later", "a slot lets in once");
});

test("who leaves the line has no turn, and when it closes those in it are sent away", async () => {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, 1);
  const seen: string[] = [];
  const ask = (name: string) =>
    slots.ask({ slot: undefined, enter: () => seen.push(`${name} in`), sendAway: ({ slot }) => seen.push(`${name} away ${typeof slot}`) });
  ask("first");
  const second = ask("second");
  ask("third");
  ask("fourth");
  assert.ok(second.to === "in_line");
  second.leave();
  await clock.advance({ milliseconds: 1_000 });
  assert.deepEqual(seen, ["first in", "third in"]);
  slots.close();
  assert.deepEqual(seen, ["first in", "third in", "fourth away string"]);
});

test("an admission that hangs keeps others in line until they are sent away in time, and slots are bounded and expire", async () => {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, 10);
  let away = 0;
  for (let i = 0; i < 5_000; i += 1) slots.ask({ slot: undefined, enter: () => slots.begun(), sendAway: () => (away += 1) });
  assert.ok(slots.booked <= 600, `${slots.booked} slots are booked`);
  await clock.advance({ seconds: 120 });
  assert.equal(slots.in_line, 0);
  assert.ok(away > 0);
  assert.ok(slots.rate < 10, `a rate of ${slots.rate}`);
});

test("without a rate everybody is let in", () => {
  const slots = new AcceptSlots(clockAt(), 0);
  for (let i = 0; i < 10_000; i += 1) assert.equal(slots.ask({ slot: undefined, enter: () => {}, sendAway: () => {} }).to, "entered");
});
