import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { type SoftwareTpm, startSoftwareTpm, whyNoSoftwareTpm } from "../testing/software-tpm.ts";
import { openFileKey, openKey } from "./identity.ts";
import type { RobotKey, TpmMode } from "./robot-key.ts";

const LIMIT = { timeout: 120_000, skip: whyNoSoftwareTpm() };
const SPKI_PREFIX = Buffer.from("3059301306072a8648ce3d020106082a8648ce3d030107034200", "hex");
const NO_TPM = { TPM2TOOLS_TCTI: "swtpm:path=/no/such/socket", PATH: process.env.PATH ?? "" };

function open(state_directory: string, environment: Record<string, string>, tpm: TpmMode = "auto") {
  const messages: string[] = [];
  const keep = (fields: unknown, text?: string): void => void messages.push(`${JSON.stringify(fields)} ${text}`);
  return { messages, key: openKey({ state_directory, tpm, environment, log: { info: keep, warn: keep } }) };
}

async function assertSigns(key: RobotKey, text: string): Promise<void> {
  const spki = Buffer.concat([SPKI_PREFIX, Buffer.from(key.public_key, "base64")]);
  const public_key = createPublicKey({ key: spki, format: "der", type: "spki" });
  const signature = Buffer.from(await key.sign(text), "base64");
  assert.equal(verify("sha256", Buffer.from(text), public_key, signature), true, text);
  assert.equal(verify("sha256", Buffer.from(`${text}!`), public_key, signature), false);
}

test("a key in the TPM signs, is found again, and signs after the TPM was restarted", LIMIT, async (t) => {
  const state = temporaryDirectory(t);
  const tpm = await startSoftwareTpm(t, temporaryDirectory(t));
  const first = await open(state, tpm.environment).key;
  assert.equal(first.place, "tpm");
  await assertSigns(first, "hello");
  assert.equal(existsSync(join(state, "identity", "key.pem")), false, "a second key is in a file");
  assert.equal(statSync(join(state, "identity", "tpm")).mode & 0o777, 0o700);

  await tpm.restart();
  await assertSigns(first, "after a restart, with the context of the time before");
  const second = await open(state, tpm.environment, "off").key;
  assert.deepEqual([second.place, second.public_key], ["tpm", first.public_key]);
  await Promise.all(Array.from({ length: 8 }, (_, number) => assertSigns(second, `concurrent text ${number}`)));
});

test("a copy of the state directory cannot sign on a machine with another TPM, or with none", LIMIT, async (t) => {
  const state = temporaryDirectory(t);
  const [own, other] = [await startSoftwareTpm(t, temporaryDirectory(t)), await startSoftwareTpm(t, temporaryDirectory(t))];
  const { public_key } = await open(state, own.environment).key;
  const copy = join(temporaryDirectory(t), "copy");
  cpSync(state, copy, { recursive: true });
  const copied = await open(copy, other.environment).key;
  assert.equal(copied.public_key, public_key);
  await assert.rejects(copied.sign("hello"), /this key belongs to another TPM, or the TPM was cleared/);
  await assert.rejects((await open(copy, NO_TPM).key).sign("hello"), /the TPM: tpm2_createprimary: /);
  await assertSigns(await open(copy, own.environment).key, "the files of the copy are intact");
});

test("without a usable TPM the key is in a file, unless a TPM is required", LIMIT, async (t) => {
  const state = temporaryDirectory(t);
  const warned = open(state, NO_TPM);
  assert.equal((await warned.key).place, "file");
  assert.match(warned.messages.join("\n"), /tpm2_createprimary.* no key could be made in the TPM: the robot's key is in a file/);
  assert.deepEqual(readdirSync(join(state, "identity")), ["key.pem"]);
  await assert.rejects(open(temporaryDirectory(t), NO_TPM, "required").key, /the TPM: tpm2_createprimary/);
  const without_tools = { ...NO_TPM, PATH: "/no/such/directory" };
  await assert.rejects(
    open(temporaryDirectory(t), without_tools, "required").key,
    /must be in a TPM, but the package tpm2-tools is not installed/,
  );
  assert.equal((await open(temporaryDirectory(t), without_tools).key).place, "file");
});

test("a key in a file stays there, even if a TPM is available", LIMIT, async (t) => {
  const state = temporaryDirectory(t);
  const tpm = await startSoftwareTpm(t, temporaryDirectory(t));
  const { public_key } = openFileKey(state);
  const key = await open(state, tpm.environment).key;
  assert.deepEqual([key.place, key.public_key], ["file", public_key]);
  await assert.rejects(open(state, tpm.environment, "required").key, /the robot's key is in .*key\.pem, but a TPM is required/);
});

test("a key whose creation was interrupted is created again", LIMIT, async (t) => {
  const state = temporaryDirectory(t);
  const tpm: SoftwareTpm = await startSoftwareTpm(t, temporaryDirectory(t));
  const building = join(state, "identity", "tpm.new");
  mkdirSync(building, { recursive: true });
  writeFileSync(join(building, "key.pub"), "torn");
  const key = await open(state, tpm.environment, "required").key;
  await assertSigns(key, "hello");
  assert.equal(existsSync(building), false);
  assert.notEqual(readFileSync(join(state, "identity", "tpm", "key.pub"), "latin1"), "torn");
});
