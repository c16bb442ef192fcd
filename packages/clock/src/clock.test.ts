import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { test } from "node:test";
import { idFloor, idSource, seededRandom, SimulatedClock, systemClock, trackActivity } from "./index.ts";

test("ids have 26 base32 characters and sort in creation order", () => {
  const id = idSource(systemClock);
  const ids = Array.from({ length: 5_000 }, () => id("rob"));
  for (const one of ids) assert.match(one, /^rob_[0-9a-hjkmnp-tv-z]{26}$/);
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, ids.length);
});

test("an id contains its creation time in the first 48 bits", () => {
  const a = idSource(new SimulatedClock({ at: "2030-01-01T00:00:00Z" }))("evt");
  const b = idSource(new SimulatedClock({ at: "2030-01-01T00:00:01Z" }))("evt");
  assert.ok(a < b);
  assert.equal(a.slice(0, 8), b.slice(0, 8));
});

test("advancing the simulated clock fires timers in order and waits for their work", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const seen: string[] = [];
  clock.setTimer(2_000, () => seen.push("second"));
  clock.setTimer(1_000, async () => {
    seen.push("first");
    await clock.sleep(500);
    seen.push("after sleep");
  });
  const every = clock.every(700, () => seen.push("tick"));
  await clock.advance({ seconds: 2 });
  every.cancel();
  await clock.advance({ minutes: 1 });
  assert.deepEqual(seen, ["tick", "first", "tick", "after sleep", "second"]);
  assert.equal(clock.now().toISOString(), "2030-01-01T00:01:02.000Z");
});

test("the same seed produces the same random numbers", () => {
  const [a, b] = [seededRandom(7), seededRandom(7)];
  for (let i = 0; i < 100; i += 1) assert.equal(a(), b());
});

test("returns the requested number of random bytes and never repeats them", () => {
  const seen = new Set<string>();
  for (let i = 0; i < 2_000; i += 1) {
    const bytes = systemClock.randomBytes(16);
    assert.equal(bytes.length, 16);
    seen.add(Buffer.from(bytes).toString("hex"));
  }
  assert.equal(seen.size, 2_000);
  assert.equal(systemClock.randomBytes(10_000).length, 10_000);
});

test("the ID floor of a time sorts after earlier IDs and before later IDs", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00.000Z" });
  const id = idSource(clock);
  const earlier = id("evt");
  await clock.advance({ seconds: 1 });
  const floor = idFloor("evt", clock.now());
  const later = id("evt");
  assert.ok(earlier < floor && floor < later, `${earlier} < ${floor} < ${later}`);
  assert.equal(floor, later.slice(0, floor.length));
  assert.ok(idFloor("evt", new Date(-1)) <= idFloor("evt", new Date(0)), "a time before the epoch sorts before all ids");
});

test("waiting for idle ends after the last tracked work, without busy polling", async () => {
  const activity = trackActivity();
  const ends = [activity.begin(), activity.begin()];
  let resolved = false;
  const before = performance.eventLoopUtilization();
  const idle = activity.idle().then(() => (resolved = true));
  for (const end of ends) {
    await systemClock.sleep(150);
    assert.equal(resolved, false);
    end();
  }
  await idle;
  assert.ok(performance.eventLoopUtilization(before).utilization < 0.5);
  assert.equal(activity.pending, 0);
});
