import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { closeHalfOpen } from "./close-half-open.ts";

const HEARTBEAT_MS = 10_000;
const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });

class Link {
  closed_for: string | undefined;
  heard_at: number;
  readonly paused: boolean;

  constructor(heard_at: number, paused = false) {
    this.heard_at = heard_at;
    this.paused = paused;
  }

  terminate(reason: string): void {
    this.closed_for = reason;
  }
}

test("closes a link after three missed heartbeats, unless the server has stopped reading from it", async () => {
  const now = clock.monotonic();
  const [recent, half_open, paused] = [new Link(now - 30_000), new Link(now - 30_001), new Link(now - 60_000, true)];
  await closeHalfOpen([recent, half_open, paused], clock, HEARTBEAT_MS);
  assert.deepEqual(
    [recent, half_open, paused].map(({ closed_for }) => closed_for),
    [undefined, "no heartbeat received", undefined],
  );
  assert.equal(paused.heard_at, now);
});

test("closes 100 links at a time, and keeps a link that sends data before its turn", async () => {
  const now = clock.monotonic();
  const links = new Map(Array.from({ length: 1_000 }, (_, i) => [i, new Link(now - 60_000)]));
  const closed = (): number => [...links.values()].filter(({ closed_for }) => closed_for !== undefined).length;
  const closing = closeHalfOpen(links.values(), clock, HEARTBEAT_MS);
  assert.equal(closed(), 100);
  links.get(999)!.heard_at = now;
  links.delete(100);
  await closing;
  assert.equal(closed(), 998);
});
