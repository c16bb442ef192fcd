import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { openKey, readEnrollment, writeEnrollment } from "./identity.ts";

test("a key is created once, readable by its owner only, with a public key of 32 bytes", (t) => {
  const directory = temporaryDirectory(t);
  const first = openKey(directory);
  assert.equal(Buffer.from(first.public_key, "base64").length, 32);
  assert.equal(openKey(directory).public_key, first.public_key);
  assert.equal(statSync(join(directory, "identity", "key.pem")).mode & 0o777, 0o600);
  assert.notEqual(openKey(temporaryDirectory(t)).public_key, first.public_key);
});

test("a damaged key is never replaced: a new key would be another robot", (t) => {
  const directory = temporaryDirectory(t);
  openKey(directory);
  const path = join(directory, "identity", "key.pem");
  writeFileSync(path, "torn");
  assert.throws(() => openKey(directory), /does not hold an Ed25519 key/);
  assert.equal(readFileSync(path, "utf8"), "torn");
});

test("an enrollment is read back; a torn file counts as not enrolled", (t) => {
  const directory = temporaryDirectory(t);
  assert.equal(readEnrollment(directory), undefined);
  openKey(directory);
  writeEnrollment(directory, { robot_id: "rob_1", org_id: "org_1", name: "arm" });
  assert.deepEqual(readEnrollment(directory), { robot_id: "rob_1", org_id: "org_1", name: "arm" });
  writeFileSync(join(directory, "identity", "robot.json"), '{"robot_id":"rob');
  assert.equal(readEnrollment(directory), undefined);
});

test("an enrollment with a wrong checksum counts as not enrolled: the server would refuse another robot's id forever", (t) => {
  const directory = temporaryDirectory(t);
  openKey(directory);
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
