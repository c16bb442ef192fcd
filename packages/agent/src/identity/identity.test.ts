import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { openFileKey, readEnrollment, writeEnrollment } from "./identity.ts";

test("creates a robot's key once, readable only by its owner", (t) => {
  const directory = temporaryDirectory(t);
  const first = openFileKey(directory);
  assert.equal(Buffer.from(first.public_key, "base64").length, 32);
  assert.equal(openFileKey(directory).public_key, first.public_key);
  assert.equal(statSync(join(directory, "identity", "key.pem")).mode & 0o777, 0o600);
  assert.notEqual(openFileKey(temporaryDirectory(t)).public_key, first.public_key);
});

test("never replaces a damaged key, since a new key would identify another robot", (t) => {
  const directory = temporaryDirectory(t);
  openFileKey(directory);
  const path = join(directory, "identity", "key.pem");
  writeFileSync(path, "torn");
  assert.throws(() => openFileKey(directory), /does not contain an Ed25519 key/);
  assert.equal(readFileSync(path, "utf8"), "torn");
});

test("a robot with a truncated enrollment file counts as not enrolled", (t) => {
  const directory = temporaryDirectory(t);
  assert.equal(readEnrollment(directory), undefined);
  openFileKey(directory);
  writeEnrollment(directory, { robot_id: "rob_1", org_id: "org_1", name: "arm" });
  assert.deepEqual(readEnrollment(directory), { robot_id: "rob_1", org_id: "org_1", name: "arm" });
  writeFileSync(join(directory, "identity", "robot.json"), '{"robot_id":"rob');
  assert.equal(readEnrollment(directory), undefined);
});

test("a robot whose enrollment file has a wrong checksum counts as not enrolled", (t) => {
  const directory = temporaryDirectory(t);
  openFileKey(directory);
  writeEnrollment(directory, { robot_id: "rob_1", org_id: "org_1", name: "arm" });
  const path = join(directory, "identity", "robot.json");
  writeFileSync(path, readFileSync(path, "utf8").replace("rob_1", "rob_3"));
  let told = 0;
  assert.equal(
    readEnrollment(directory, () => (told += 1)),
    undefined,
  );
  assert.equal(told, 1);
});
