import assert from "node:assert/strict";
import { mkdtemp, mkdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { type KeptRobot, RobotFile } from "./kept.ts";

const robot = (number: number): KeptRobot => ({
  number,
  key: "a",
  robot_id: `rob_${number}`,
  org_id: "org_1",
  name: `sim-${number}`,
  installs: 0,
  first: {},
  apps: {},
});

test("reports a disk that fails temporarily once, and writes the pending state when it recovers", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-kept-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  let complaints = 0;
  const open = () => RobotFile.open(directory, clock, () => (complaints += 1));
  const kept = await open();
  const file = join(directory, "robots.jsonl");
  await rename(file, `${file}.away`);
  await mkdir(file);
  for (const number of [1, 2]) {
    kept.changed(robot(number));
    await kept.flush();
  }
  assert.equal(complaints, 1);
  await rm(file, { recursive: true });
  await rename(`${file}.away`, file);
  kept.changed(robot(3));
  await kept.close();
  const again = await open();
  assert.deepEqual([...again.robots.keys()].toSorted(), [1, 2, 3]);
  await again.close();
  assert.equal(complaints, 1);
});
