import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@robofleet/clock";
import { AcceptSlots } from "./accept-slots.ts";

const clockAt = (): SimulatedClock => new SimulatedClock({ at: "2030-01-01T00:00:00Z" });

test("15,000 robots that come at once are let in at the rate, each at the second attempt or, beyond a minute, the third", async () => {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, 200);
  const let_in_at: number[] = [];
  let attempts = 0;
  const attempt = (slot?: string): void => {
    attempts += 1;
    const booking = slots.ask(slot);
    if (booking === undefined) let_in_at.push(clock.monotonic());
    else clock.setTimer(booking.retry_after_ms, () => attempt(booking.slot));
  };
  for (let i = 0; i < 15_000; i += 1) attempt();
  assert.ok(slots.booked <= 12_000, `${slots.booked} slots are booked`);
  for (let seconds = 0; let_in_at.length < 15_000 && seconds < 150; seconds += 1) await clock.advance({ seconds: 1 });
  assert.equal(let_in_at.length, 15_000);
  assert.ok(attempts <= 3 * 15_000, `${attempts} attempts`);
  // The rate, an eighth more at most for jitter, in every second after the burst.
  const per_second = new Map<number, number>();
  for (const at of let_in_at) per_second.set(Math.floor(at / 1_000), (per_second.get(Math.floor(at / 1_000)) ?? 0) + 1);
  for (const [second, count] of per_second) assert.ok(count <= 275, `${count} in second ${second}`);
  assert.equal(slots.booked, 0);
});

test("who comes at its slot is let in although others ask all the time; who comes too early is told the same slot", async () => {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, 10);
  while (slots.ask(undefined) === undefined);
  for (let i = 0; i < 50; i += 1) slots.ask(undefined);
  const booking = slots.ask(undefined)!;
  assert.ok(booking.retry_after_ms > 5_000);
  const early = slots.ask(booking.slot)!;
  assert.equal(early.slot, booking.slot);
  assert.ok(Math.abs(early.retry_after_ms - booking.retry_after_ms) <= 101);
  await clock.advance({ milliseconds: booking.retry_after_ms });
  assert.notEqual(slots.ask(undefined), undefined);
  assert.equal(slots.ask(booking.slot), undefined);
  assert.notEqual(slots.ask(booking.slot), undefined, "a slot lets in once");
});

test("slots expire, are bounded, and a slot that was never given is worth nothing", async () => {
  const clock = clockAt();
  const slots = new AcceptSlots(clock, 10);
  for (let i = 0; i < 5_000; i += 1) slots.ask("made up");
  assert.equal(slots.booked, 600);
  const { retry_after_ms, slot } = slots.ask(undefined)!;
  assert.equal(slot, undefined);
  assert.ok(retry_after_ms >= 60_000);
  await clock.advance({ seconds: 71 });
  assert.equal(slots.ask(undefined), undefined);
  assert.equal(slots.booked, 0);
});

test("without a rate everybody is let in", () => {
  const slots = new AcceptSlots(clockAt(), 0);
  for (let i = 0; i < 10_000; i += 1) assert.equal(slots.ask(undefined), undefined);
});
