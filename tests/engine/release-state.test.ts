import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack, slow } from "@roamfleet/swarm/testing";
import { startPlane } from "../harness/index.ts";

test("release_state counts a rolled back release as failed, but not a cancelled one", { timeout: 120_000 }, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const robot = await plane.enrollRobot();
  const state = async () => (await plane.api.getRobot({ params: { id: robot.id } })).data.release_state;
  const [before, called_off, bad] = [await plane.release(), await plane.release(), await plane.release()];
  await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  assert.equal(await state(), "current");
  robot.behave(slow(10_000), called_off.id);
  const { id } = await plane.deploy(called_off, { robot_id: robot.id });
  await plane.advance({ seconds: 2 });
  assert.equal(await state(), "behind");
  await plane.api.cancelDeployment({ params: { id } });
  await plane.advance({ minutes: 1 });
  assert.equal(await state(), "current");
  robot.behave(rollBack(), bad.id);
  await plane.deploy(bad, { robot_id: robot.id });
  await plane.settle();
  assert.equal(await state(), "failed");
});
