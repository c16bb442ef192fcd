import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { keyIdOf, parseTrustStatement, publicKeyOf, type SignedText, signTrust, type TrustedKey } from "@roamfleet/protocol/signatures";
import { Failure } from "./failure.ts";
import { provenTrust, type SigningKeys } from "./proven-keys.ts";
import { RfHome } from "./testing/run-rf.ts";
import { ScriptedPeer } from "./testing/scripted-peer.ts";

interface Key extends TrustedKey {
  id: string;
  private_key: KeyObject;
}
function makeKey(name: string): Key {
  const { privateKey } = generateKeyPairSync("ed25519");
  const public_key = publicKeyOf(privateKey);
  return { name, public_key, id: keyIdOf(public_key), private_key: privateKey };
}
const [first, spare, evil] = [makeKey("first"), makeKey("spare"), makeKey("evil")];
const AT = "2030-01-01T00:00:00.000Z";

const say = (serial: number, keys: Key[], by: Key, require_signature = true): SignedText =>
  signTrust(
    {
      org_id: "org_1",
      serial,
      require_signature,
      keys: keys.map(({ name, public_key }) => ({ name, public_key })),
      issued_at: AT,
    },
    by.private_key,
  );

const list = (statements: SignedText[], keys: Key[], more: Partial<SigningKeys> = {}): SigningKeys => ({
  org_id: "org_1",
  serial: statements.length,
  require_signature: true,
  keys: keys.map(({ id, name, public_key }) => ({ id, name, public_key, added_at: AT, revoked_at: null })),
  statements,
  ...more,
});

const names = (listed: SigningKeys, by: Key, known?: string): string[] | undefined =>
  provenTrust(listed, { public_key: by.public_key, known })?.keys.map(({ name }) => name);

function refused(listed: SigningKeys, by: Key, known?: string): void {
  assert.throws(
    () => names(listed, by, known),
    (error: Error) => {
      assert.ok(error instanceof Failure && error.exit_code === 1, String(error));
      for (const { id } of listed.keys) assert.match(error.hints.join("\n"), new RegExp(id));
      return true;
    },
  );
}

test("verifies the listed signing keys through a chain of signed statements", () => {
  assert.equal(names(list([], [], { require_signature: false }), first), undefined);
  const one = say(1, [first], first);
  assert.deepEqual(names(list([one], [first]), first), ["first"]);
  const two = say(2, [first, spare], first);
  const three = say(3, [spare], spare);
  assert.deepEqual(names(list([one, two, three], [spare]), first), ["spare"]);
  assert.deepEqual(names(list([one, two, three], [spare]), spare), ["spare"]);
});

test("rejects a key list that the signed statements do not confirm", () => {
  const one = say(1, [first], first);
  refused(list([one], [first, evil]), first);
  refused(list([one], [evil]), first);
  refused(list([one], [first], { require_signature: false }), first);
  refused(list([one], [first], { serial: 7 }), first);
  refused(list([], [first, evil]), first);
  refused(list([], [], { require_signature: true }), first);
});

test("rejects key statements forged by the server", () => {
  const one = say(1, [first], first);
  refused(list([one, say(2, [first, evil], evil)], [first, evil]), first);
  refused(list([say(1, [first, evil], evil)], [first, evil]), first);
  refused(list([{ ...say(1, [first, evil], evil), key_id: first.id }], [first, evil]), first);
});

test("accepts a signing key that has signed no statement if --known names a trusted key", () => {
  const honest = [say(1, [first], first), say(2, [first, spare], first)];
  refused(list(honest, [first, spare]), spare);
  assert.deepEqual(names(list(honest, [first, spare]), spare, first.id), ["first", "spare"]);
  const own = [say(1, [evil], evil), say(2, [first, spare, evil], evil)];
  refused(list(own, [first, spare, evil]), spare, first.id);
});

const TIMEOUT = { timeout: 120_000 };

test("refuses to sign keys if the server's serial is lower than one seen before", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const keys = ["old", "new"].map((name) => {
    const { privateKey } = generateKeyPairSync("ed25519");
    return { name, public_key: publicKeyOf(privateKey), private_key: privateKey, file: path.join(home.directory, `${name}.pem`) };
  });
  for (const { file, private_key } of keys) await writeFile(file, private_key.export({ type: "pkcs8", format: "pem" }));
  const [old, fresh] = keys;
  assert.ok(old && fresh);
  const statements = [1, 2, 3].map((serial): SignedText => {
    const said = {
      org_id: "org_1",
      serial,
      require_signature: serial === 3,
      keys: [{ name: "old", public_key: old.public_key }],
      issued_at: AT,
    };
    return signTrust(said, old.private_key);
  });
  let told = statements;
  const listed = () => {
    const { keys: trusted = [], serial = 0, require_signature = false } = parseTrustStatement(told.at(-1)?.text ?? "") ?? {};
    const rows = trusted.map((key) => ({ ...key, id: "0".repeat(16), added_at: AT, revoked_at: null }));
    return { org_id: "org_1", serial, require_signature, keys: rows, statements: told };
  };
  const said: { serial?: number; keys?: number }[] = [];
  await using peer = await ScriptedPeer.start(({ line, body }) => {
    if (line.startsWith("POST")) {
      const { statement } = JSON.parse(body) as { statement: SignedText };
      const trust = parseTrustStatement(statement.text);
      said.push({ ...(trust && { serial: trust.serial, keys: trust.keys.length }) });
      told = [...told, statement];
    }
    return { body: { data: listed() } };
  });
  const env = { ROAMFLEET_BASE_URL: peer.base_url, ROAMFLEET_TOKEN: "rfp_test" };
  const rf = (...args: string[]) => home.run(["signing-keys", ...args], { env });
  const done = await rf("require", "off", "--sign", old.file);
  assert.equal(done.code, 0, done.stderr);
  assert.deepEqual(said, [{ serial: 4, keys: 1 }]);

  // The server now hides the latest statements.
  told = statements.slice(0, 2);
  for (const args of [
    ["require", "on", "--sign", old.file],
    ["add", fresh.file, "--sign", fresh.file, "--start-over"],
  ]) {
    const { code, stderr } = await rf(...args);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /list of keys has serial 2, but this machine has seen serial 4; nothing was signed/);
  }
  assert.equal(said.length, 1);

  told = [...statements, signTrust({ org_id: "org_1", serial: 4, require_signature: false, keys: [], issued_at: AT }, old.private_key)];
  const over = await rf("add", fresh.file, "--sign", fresh.file, "--start-over");
  assert.equal(over.code, 0, over.stderr);
  assert.deepEqual(said.at(-1), { serial: 5, keys: 1 });
});
