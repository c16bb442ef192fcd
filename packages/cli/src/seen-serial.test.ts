import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { parseTrustStatement, publicKeyOf, type SignedText, signTrust } from "@roamfleet/protocol/signatures";
import { RfHome } from "./testing/run-rf.ts";
import { ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const AT = "2030-01-01T00:00:00.000Z";

test("refuses to sign keys below a serial seen before, also when starting over", TIMEOUT, async () => {
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

  // From here on the server hides the latest statements.
  told = statements.slice(0, 2);
  for (const args of [
    ["require", "on", "--sign", old.file],
    ["add", fresh.file, "--sign", fresh.file, "--start-over"],
  ]) {
    const { code, stderr } = await rf(...args);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /keys are at serial 2, but this machine has seen serial 4; nothing was signed/);
  }
  assert.equal(said.length, 1);

  told = [...statements, signTrust({ org_id: "org_1", serial: 4, require_signature: false, keys: [], issued_at: AT }, old.private_key)];
  const over = await rf("add", fresh.file, "--sign", fresh.file, "--start-over");
  assert.equal(over.code, 0, over.stderr);
  assert.deepEqual(said.at(-1), { serial: 5, keys: 1 });
});
