import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { MasterKeyError, masterKeyFile, openMasterKeys, parseMasterKeys, seal, unseal } from "./master-keys.ts";

const key = randomBytes(32);

test("an encrypted text can only be decrypted with its key and its context", () => {
  const sealed = seal(key, Buffer.from("hunter2"), ["org_1", "cfg_1", 3]);
  assert.equal(unseal(key, sealed, ["org_1", "cfg_1", 3]).toString(), "hunter2");
  for (const bound of [["org_2", "cfg_1", 3], ["org_1", "cfg_1", 4], ["org_1", "cfg_1", "3"], ["org_1cfg_1", 3], []])
    assert.throws(() => unseal(key, sealed, bound), JSON.stringify(bound));
  assert.throws(() => unseal(randomBytes(32), sealed, ["org_1", "cfg_1", 3]));
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = `${sealed.slice(0, at)}${sealed[at] === "A" ? "Q" : "A"}${sealed.slice(at + 1)}`;
    assert.throws(() => unseal(key, changed, ["org_1", "cfg_1", 3]), String(at));
  }
  assert.throws(() => unseal(key, "", []), /too short/);
  assert.notEqual(seal(key, Buffer.from("x"), []), seal(key, Buffer.from("x"), []));
});

test("reads keys in hex and base64, newest first, and refuses an invalid key without printing it", () => {
  const [old, now] = [randomBytes(32), randomBytes(32)];
  const before = parseMasterKeys(old.toString("hex"), "the variable");
  const wrapped = before.wrap(key, ["org_1"]);
  const both = parseMasterKeys(`${now.toString("base64")},\n${old.toString("hex")}\n`, "the variable");
  assert.deepEqual(both.unwrap(wrapped, ["org_1"]), key);
  assert.throws(() => both.unwrap(wrapped, ["org_2"]));
  assert.equal(parseMasterKeys(now.toString("hex"), "the variable").unwrap(wrapped, ["org_1"]), undefined);
  assert.equal(both.wrap(key, []).master_key_id, parseMasterKeys(now.toString("hex"), "x").current_id);
  for (const text of ["", "  ", "abc", old.toString("hex").slice(2), `${old.toString("hex")} secret`]) {
    assert.throws(
      () => parseMasterKeys(text, "the variable"),
      (error) => error instanceof MasterKeyError && /the variable must contain/.test(error.message) && !error.message.includes("abc"),
    );
  }
});

test("creates a private key file in the data directory once, and then reuses it", async () => {
  const data_directory = await mkdtemp(path.join(tmpdir(), "roamfleet-keys-"));
  try {
    const first = await openMasterKeys({ data_directory });
    const file = masterKeyFile(data_directory);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(await readdir(data_directory), ["secrets.key"]);
    assert.equal((await openMasterKeys({ data_directory })).current_id, first.current_id);
    const given = await openMasterKeys({ data_directory, secrets_key: key.toString("hex") });
    assert.notEqual(given.current_id, first.current_id);
    await writeFile(path.join(data_directory, "mounted"), key.toString("base64"));
    assert.equal(
      (await openMasterKeys({ data_directory, secrets_key_file: path.join(data_directory, "mounted") })).current_id,
      given.current_id,
    );
    await assert.rejects(openMasterKeys({ data_directory, secrets_key_file: path.join(data_directory, "none") }), MasterKeyError);
    await writeFile(file, (await readFile(file, "utf8")).slice(0, 10));
    await assert.rejects(openMasterKeys({ data_directory }), /must contain/);
  } finally {
    await rm(data_directory, { recursive: true });
  }
});
