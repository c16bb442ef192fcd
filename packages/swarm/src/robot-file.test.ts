import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { deriveRobotKey, type StoredRobot, RobotFile, robotKey } from "./robot-file.ts";

const robot = (number: number): StoredRobot => ({
  number,
  key: "a",
  robot_id: `rob_${number}`,
  org_id: "org_1",
  name: `sim-${number}`,
  installs: 0,
  first: {},
  apps: {},
});

test("reports a temporary disk failure once and writes the pending state afterwards", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-stored-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  let complaints = 0;
  const open = () => RobotFile.open(directory, clock, () => (complaints += 1));
  const stored = await open();
  const file = join(directory, "robots.jsonl");
  await rename(file, `${file}.away`);
  await mkdir(file);
  for (const number of [1, 2]) {
    stored.changed(robot(number));
    await stored.flush();
  }
  assert.equal(complaints, 1);
  await rm(file, { recursive: true });
  await rename(`${file}.away`, file);
  stored.changed(robot(3));
  await stored.close();
  const again = await open();
  assert.deepEqual([...again.robots.keys()].toSorted(), [1, 2, 3]);
  await again.close();
  assert.equal(complaints, 1);
});

test("derives a robot's key from seed, number and enrollment key, and signs with it", async () => {
  const raw = deriveRobotKey("rf_enroll_a", 7, 1);
  assert.deepEqual(raw, deriveRobotKey("rf_enroll_a", 7, 1));
  for (const other of [deriveRobotKey("rf_enroll_b", 7, 1), deriveRobotKey("rf_enroll_a", 8, 1), deriveRobotKey("rf_enroll_a", 7, 2)])
    assert.notDeepEqual(raw, other);
  const key = robotKey(raw);
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(key.public_key, "base64")]);
  const public_key = createPublicKey({ key: spki, format: "der", type: "spki" });
  assert.equal(verify(null, Buffer.from("hello"), public_key, Buffer.from(await key.sign("hello"), "base64")), true);
  assert.equal(verify(null, Buffer.from("hallo"), public_key, Buffer.from(await key.sign("hello"), "base64")), false);
});
