import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { alarm } from "./background.ts";

const AT = "2030-01-01T00:00:00.000Z";
const MINUTE_MS = 60_000;
const after = (ms: number): Date => new Date(Date.parse(AT) + ms);

/** A machine whose wall clock is changed while its timers continue. */
class SetClock {
  readonly time = new SimulatedClock({ at: AT });
  offset_ms = 0;

  now(): Date {
    return new Date(this.time.now().getTime() + this.offset_ms);
  }

  readonly setTimer: SimulatedClock["setTimer"] = (ms, work) => this.time.setTimer(ms, work);
}

function waiting(): { clock: SetClock; rung: string[]; set: (at: Date | null) => void } {
  const clock = new SetClock();
  const rung: string[] = [];
  return { clock, rung, set: alarm(clock, () => rung.push(clock.now().toISOString())).set };
}

test("an alarm fires once at the set time, even days ahead", async () => {
  const { clock, rung, set } = waiting();
  set(after(3 * 24 * 60 * MINUTE_MS + 250));
  await clock.time.advance({ days: 3 });
  assert.deepEqual(rung, []);
  await clock.time.advance({ days: 1 });
  assert.deepEqual(rung, ["2030-01-04T00:00:00.250Z"]);
});

test("an alarm detects within a second that the clock was changed", async () => {
  const { clock, rung, set } = waiting();
  set(after(5 * MINUTE_MS));
  await clock.time.advance({ seconds: 1 });
  clock.offset_ms = 5 * MINUTE_MS;
  await clock.time.advance({ seconds: 1 });
  assert.deepEqual(rung, ["2030-01-01T00:05:02.000Z"]);
  clock.offset_ms = 0;
  set(after(MINUTE_MS));
  await clock.time.advance({ seconds: 30 });
  clock.offset_ms = -5 * MINUTE_MS;
  await clock.time.advance({ minutes: 5 });
  assert.equal(rung.length, 1);
  await clock.time.advance({ minutes: 1 });
  assert.deepEqual(rung.slice(1), ["2030-01-01T00:01:00.000Z"]);
});

test("setting an alarm replaces its time, null cancels it, and a past time fires immediately", async () => {
  const { clock, rung, set } = waiting();
  set(after(1_000));
  set(after(2_000));
  await clock.time.advance({ milliseconds: 1_500 });
  assert.deepEqual(rung, []);
  set(null);
  await clock.time.advance({ seconds: 10 });
  assert.deepEqual(rung, []);
  set(after(0));
  await clock.time.advance({ milliseconds: 100 });
  assert.equal(rung.length, 1);
});
