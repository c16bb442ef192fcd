import assert from "node:assert/strict";
import { test } from "node:test";
import { BULK_BYTES_MAX, BULK_BYTES_MIN, RateMeter } from "./rate-meter.ts";

/** A link with a rate and a round trip time on a simulated clock: sends as much as the meter allows, for a given time. */
class SimulatedLink {
  readonly meter = new RateMeter();
  now = 0;
  bytes_per_second: number;
  readonly #round_trip_ms: number;
  #line_free_at = 0;
  #acknowledgements: { at: number; bytes: number }[] = [];
  taken = 0;

  constructor(bytes_per_second: number, round_trip_ms: number, busy_ms = 0) {
    this.bytes_per_second = bytes_per_second;
    this.#round_trip_ms = round_trip_ms;
    // `busy_ms` stands for the messages at the start of a link.
    this.#line_free_at = busy_ms;
  }

  /** Delay of a control byte behind the bulk data in transit. */
  get queue_ms(): number {
    return Math.max(0, this.#line_free_at - this.now);
  }

  run(ms: number): { queue_ms_max: number; bytes_per_second: number } {
    const [end, taken] = [this.now + ms, this.taken];
    let queue_ms_max = 0;
    while (this.now < end) {
      this.#send();
      queue_ms_max = Math.max(queue_ms_max, this.queue_ms);
      const next = this.#acknowledgements.shift();
      if (next === undefined) break;
      this.now = next.at;
      this.taken += next.bytes;
      assert.ok(this.meter.acknowledged(next.bytes, this.now));
    }
    return { queue_ms_max, bytes_per_second: ((this.taken - taken) * 1_000) / ms };
  }

  #send(): void {
    for (;;) {
      const bytes = Math.min(this.meter.slice, this.meter.budget - this.meter.in_flight);
      if (bytes < 1_024) return;
      this.meter.sent(bytes, this.now, false);
      this.#line_free_at = Math.max(this.#line_free_at, this.now) + (bytes / this.bytes_per_second) * 1_000;
      this.#acknowledgements.push({ at: this.#line_free_at + this.#round_trip_ms, bytes });
    }
  }
}

for (const [name, bytes_per_second, round_trip_ms, queue_ms] of [
  ["0.5 Mbit/s, 60 ms", 62_500, 60, 170],
  ["2 Mbit/s, 80 ms", 250_000, 80, 200],
  ["10 Mbit/s, 40 ms", 1_250_000, 40, 200],
  ["1 Mbit/s over a satellite, 600 ms", 125_000, 600, 400],
] as const) {
  test(`bulk data uses 90% of a link with ${name} and delays other frames by at most ${queue_ms} ms`, () => {
    const link = new SimulatedLink(bytes_per_second, round_trip_ms);
    link.run(15_000);
    const { queue_ms_max, bytes_per_second: used } = link.run(30_000);
    assert.ok(used >= 0.9 * bytes_per_second, `${used} of ${bytes_per_second} bytes/s`);
    assert.ok(queue_ms_max <= queue_ms, `${queue_ms_max} ms`);
  });
}

for (const busy_ms of [0, 300, 1_000, 3_000]) {
  test(`bulk data uses 90% of a slow link that is busy for the first ${busy_ms} ms`, () => {
    const link = new SimulatedLink(25_000, 300, busy_ms);
    link.run(15_000);
    const { queue_ms_max, bytes_per_second: used } = link.run(30_000);
    assert.ok(queue_ms_max <= 250, `${queue_ms_max} ms`);
    assert.ok(used >= 0.9 * 25_000, `${used} bytes/s`);
  });
}

test("allows 8 KiB of bulk data in flight initially and 256 KiB on the fastest link", () => {
  const link = new SimulatedLink(1e9, 1);
  assert.equal(link.meter.budget, BULK_BYTES_MIN);
  link.run(1_000);
  assert.equal(link.meter.budget, BULK_BYTES_MAX);
});

test("adapts to a tenfold slowdown of a link within four seconds", () => {
  const link = new SimulatedLink(1_250_000, 40);
  link.run(10_000);
  link.bytes_per_second = 125_000;
  link.run(4_000);
  assert.ok(link.run(2_000).queue_ms_max <= 220);
});

test("sending little data does not lower the measured link rate", () => {
  const meter = new RateMeter();
  for (let i = 0; i < 50; i += 1) {
    meter.sent(4_096, i * 5, false);
    meter.acknowledged(4_096, i * 5 + 5);
  }
  const { rate } = meter;
  assert.ok(rate > 500_000);
  for (let i = 0; i < 10; i += 1) {
    meter.sent(100, 10_000 + i * 1_000, true);
    meter.acknowledged(100, 10_400 + i * 1_000);
  }
  assert.equal(meter.rate, rate);
});

test("rejects acknowledgements of more bytes than were sent", () => {
  const meter = new RateMeter();
  meter.sent(100, 0, false);
  assert.equal(meter.acknowledged(101, 1), false);
  assert.equal(meter.acknowledged(60, 1), true);
  assert.equal(meter.acknowledged(41, 2), false);
  assert.equal(meter.in_flight, 40);
});
