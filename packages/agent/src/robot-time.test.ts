import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import metadata from "../package.json" with { type: "json" };
import { RobotTime } from "./robot-time.ts";
import { temporaryDirectory } from "./testing/agent-rig.ts";

const MADE_AT = Date.parse(metadata.made_at);
const AHEAD = Date.parse("2040-01-01T00:00:00Z");
const RIGHT = Date.parse("2030-01-01T00:00:00Z");

test("a robot with a correct clock ignores a server's future time when it checks certificates", (t) => {
  const state = temporaryDirectory(t);
  mkdirSync(join(state, "identity"));
  const clock = new SimulatedClock({ at: new Date(RIGHT).toISOString() });
  const time = new RobotTime(clock, state);
  time.sync(AHEAD);
  assert.equal(time.least(), MADE_AT);
  assert.equal(new RobotTime(clock, state).least(), MADE_AT);
});

test("a robot whose clock predates the agent's release checks certificates by the server's time", (t) => {
  const state = temporaryDirectory(t);
  mkdirSync(join(state, "identity"));
  const clock = new SimulatedClock({ at: "1970-01-01T00:00:00Z" });
  const time = new RobotTime(clock, state);
  assert.equal(time.least(), MADE_AT);
  time.sync(AHEAD);
  assert.equal(time.least(), AHEAD);
  assert.equal(new RobotTime(clock, state).least(), AHEAD);
  time.sync(RIGHT);
  assert.equal(time.least(), RIGHT);
  assert.equal(new RobotTime(clock, state).least(), RIGHT);
});
