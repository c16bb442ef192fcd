import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { test } from "node:test";
import { deriveRobotKey, robotKey } from "./robot-key.ts";

test("derives a robot's key from seed, number and enrollment key, and signs with it", () => {
  const raw = deriveRobotKey("rf_enroll_a", 7, 1);
  assert.deepEqual(raw, deriveRobotKey("rf_enroll_a", 7, 1));
  for (const other of [deriveRobotKey("rf_enroll_b", 7, 1), deriveRobotKey("rf_enroll_a", 8, 1), deriveRobotKey("rf_enroll_a", 7, 2)])
    assert.notDeepEqual(raw, other);
  const key = robotKey(raw);
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(key.public_key, "base64")]);
  const public_key = createPublicKey({ key: spki, format: "der", type: "spki" });
  assert.equal(verify(null, Buffer.from("hello"), public_key, Buffer.from(key.sign("hello"), "base64")), true);
  assert.equal(verify(null, Buffer.from("hallo"), public_key, Buffer.from(key.sign("hello"), "base64")), false);
});
