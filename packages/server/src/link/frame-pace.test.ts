import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { FramePace, LINK_OPEN_UNITS, LINK_UNITS, ORG_UNITS, type Paced } from "./frame-pace.ts";
import { Hold, ReadValve } from "./read-valve.ts";

const linkOf = (org_id: string, robot_id?: string): Paced => ({
  org_id,
  ...(robot_id === undefined ? {} : { robot_id }),
  valve: new ReadValve({ pause: () => {}, resume: () => {} }),
  units: undefined,
});
const rests = (link: Paced): boolean => link.valve.holds(Hold.pace);

test("pauses reading of a link that exceeds its rate until its debt is paid, and no other link", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FramePace(clock);
  const [flood, calm] = [linkOf("org_1"), linkOf("org_1")];
  for (let i = 0; i < LINK_UNITS.burst; i += 1) pace.take(flood, 1);
  assert.equal(rests(flood), false);
  pace.take(flood, LINK_UNITS.per_second / 2);
  pace.take(calm, 1);
  assert.deepEqual([rests(flood), rests(calm)], [true, false]);
  await clock.advance({ milliseconds: 499 });
  assert.equal(rests(flood), true);
  await clock.advance({ milliseconds: 2 });
  assert.equal(rests(flood), false);
});

test("pauses reading of the links of an org that exceeds its rate, and of no other org", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FramePace(clock);
  const links = Array.from({ length: 20 }, () => linkOf("org_1"));
  const other = linkOf("org_2");
  for (const link of links) pace.take(link, ORG_UNITS.burst / 16);
  pace.take(other, 1);
  assert.deepEqual([links.some(rests), rests(other)], [true, false]);
  await clock.advance({ seconds: 5 });
  assert.equal(links.some(rests), false);
});

test("keeps the debt of a robot that reconnects", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FramePace(clock);
  pace.take(linkOf("org_1", "rbt_1"), LINK_UNITS.burst);
  const [next, other] = [linkOf("org_1", "rbt_1"), linkOf("org_1", "rbt_2")];
  pace.take(next, LINK_UNITS.per_second);
  pace.take(other, LINK_UNITS.per_second);
  assert.deepEqual([rests(next), rests(other)], [true, false]);
  await clock.advance({ milliseconds: 1_001 });
  assert.equal(rests(next), false);
});

test("lets a robot open links until its bucket is empty, then as fast as the bucket fills, and other robots at any time", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const pace = new FramePace(clock);
  let opened = 0;
  while (pace.open("rbt_1") === 0) opened += 1;
  assert.equal(opened, Math.ceil(LINK_UNITS.burst / LINK_OPEN_UNITS));
  assert.equal(pace.open("rbt_2"), 0);
  await clock.advance({ milliseconds: Math.ceil(pace.open("rbt_1")) });
  assert.equal(pace.open("rbt_1"), 0);
});
