import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { FramePace, LINK_UNITS, ORG_UNITS, type Paced } from "./frame-pace.ts";
import { Hold, ReadValve } from "./read-valve.ts";

const linkOf = (org_id: string): Paced => ({ org_id, valve: new ReadValve({ pause: () => {}, resume: () => {} }), units: undefined });
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
