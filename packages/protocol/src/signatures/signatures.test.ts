import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import {
  canonicalJson,
  checkSignedRelease,
  isPublicKey,
  isSignedBy,
  keyIdOf,
  nextTrust,
  parseReleaseStatement,
  parseTrustStatement,
  publicKeyOf,
  type ReleaseStatement,
  signRelease,
  signText,
  signTrust,
  type Trust,
  type TrustStatement,
} from "./index.ts";

const key = (): { private_key: KeyObject; public_key: string } => {
  const { privateKey } = generateKeyPairSync("ed25519");
  return { private_key: privateKey, public_key: publicKeyOf(privateKey) };
};
const NOW = Date.parse("2026-05-01T00:00:00Z");

const statement = (more: Partial<ReleaseStatement> = {}): ReleaseStatement => ({
  org_id: "org_1",
  app: "main",
  tag: "nav-1.4.0",
  kind: "file",
  artifact_sha256: "a".repeat(64),
  artifact_size: 12,
  image: null,
  image_configs: null,
  manifest_sha256: null,
  version: 3,
  minimum_version: 0,
  issued_at: "2026-04-01T00:00:00.000Z",
  expires_at: "2027-04-01T00:00:00.000Z",
  robots: null,
  labels: null,
  ...more,
});
const trust = (more: Partial<TrustStatement> = {}): TrustStatement => ({
  org_id: "org_1",
  serial: 1,
  require_signature: true,
  keys: [],
  issued_at: "2026-04-01T00:00:00.000Z",
  ...more,
});

test("canonical JSON does not depend on key order and parses back to the same value", () => {
  assert.equal(canonicalJson({ b: [1, -0, 1e21, "é\n"], a: null, c: undefined }), '{"a":null,"b":[1,0,1e+21,"é\\n"]}');
  assert.throws(() => canonicalJson({ a: Number.NaN }), TypeError);
  assert.throws(() => canonicalJson(["\ud800"]), TypeError);
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value));
      const text = canonicalJson(plain);
      assert.deepEqual(JSON.parse(text), plain);
      assert.equal(canonicalJson(JSON.parse(text)), text);
    }),
  );
});

test("signs with a key created by openssl, and openssl verifies the signature", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "roamfleet-signatures-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const at = (name: string): string => join(directory, name);
  const openssl = (...words: string[]): string => execFileSync("openssl", words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  openssl("genpkey", "-algorithm", "ed25519", "-out", at("key.pem"));
  openssl("pkey", "-in", at("key.pem"), "-pubout", "-out", at("key.pub"));
  const public_key = publicKeyOf(createPublicKey(readFileSync(at("key.pub"), "utf8")));
  const signed = signRelease(statement(), createPrivateKey(readFileSync(at("key.pem"))));
  assert.ok(isSignedBy(signed, public_key));
  writeFileSync(at("text"), signed.text);
  writeFileSync(at("signature"), Buffer.from(signed.value, "base64"));
  const check = (): string =>
    openssl("pkeyutl", "-verify", "-pubin", "-inkey", at("key.pub"), "-rawin", "-in", at("text"), "-sigfile", at("signature"));
  assert.match(check(), /Signature Verified Successfully/);
  writeFileSync(at("text"), `${signed.text} `);
  assert.throws(check);
});

test("a signed release statement is not a valid key statement, and vice versa", () => {
  const { private_key, public_key } = key();
  const release = signRelease(statement(), private_key);
  const keys = signTrust(trust({ keys: [{ name: "k", public_key }] }), private_key);
  assert.equal(parseTrustStatement(release.text), undefined);
  assert.equal(parseReleaseStatement(keys.text), undefined);
  assert.deepEqual(parseReleaseStatement(release.text), statement());
});

test("parses only the canonical text of a complete release statement", () => {
  const { text } = signRelease(statement(), key().private_key);
  const doubled = text.replace("{", '{"version":9,');
  for (const other of [doubled, ` ${text}`, `${text}\n`, text.replace('"version":3', '"version":3.0'), text.replace('"tag":', '"tags":')])
    assert.equal(parseReleaseStatement(other), undefined, other.slice(0, 60));
  for (const wrong of [
    { version: -1 },
    { version: 1.5 },
    { expires_at: "never" },
    { robots: [1] },
    { labels: [] },
    { artifact_size: "12" },
  ])
    assert.equal(parseReleaseStatement(signRelease({ ...statement(), ...wrong } as ReleaseStatement, key().private_key).text), undefined);
});

test("accepts only public keys of 32 bytes in canonical base64", () => {
  const { public_key } = key();
  assert.match(keyIdOf(public_key), /^[0-9a-f]{32}$/);
  assert.ok(isPublicKey(public_key));
  for (const text of ["", public_key.slice(0, 40), `${public_key} `, public_key.replace("=", "")]) assert.equal(isPublicKey(text), false);
  assert.throws(() => publicKeyOf(generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey), TypeError);
});

test("rejects a signature with any bit flipped, or with another text", () => {
  const { private_key, public_key } = key();
  const signed = signText("roamfleet-release-v1\n{}", private_key);
  fc.assert(
    fc.property(fc.nat({ max: 64 * 8 - 1 }), (bit) => {
      const bytes = Buffer.from(signed.value, "base64");
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      assert.equal(isSignedBy({ ...signed, value: bytes.toString("base64") }, public_key), false);
    }),
  );
  assert.equal(isSignedBy({ ...signed, text: `${signed.text}x` }, public_key), false);
  assert.equal(isSignedBy(signed, key().public_key), false);
  assert.equal(isSignedBy({ ...signed, value: "" }, public_key), false);
});

test("rejects a release that differs from its signed statement in any part", () => {
  const { private_key, public_key } = key();
  const release = { ...statement(), manifest: null };
  const signature = signRelease(statement(), private_key);
  const one = { org_id: "org_1", app: "main", release, signature, keys: [{ name: "k", public_key }], now_ms: NOW };
  const check = (more: Partial<typeof one>): string => {
    const verdict = checkSignedRelease({ ...one, ...more });
    return "statement" in verdict ? "accepted" : verdict.refusal.check;
  };
  assert.equal(check({}), "accepted");
  assert.equal(check({ signature: null as never }), "unsigned");
  assert.equal(check({ signature: { ...signature, text: "{}" } }), "malformed");
  assert.equal(check({ keys: [{ name: "other", public_key: key().public_key }] }), "unknown_key");
  assert.equal(
    check({ signature: { ...signature, value: signature.value.replace(/^./, (c) => (c === "A" ? "B" : "A")) } }),
    "bad_signature",
  );
  assert.equal(check({ org_id: "org_2" }), "other_org");
  assert.equal(check({ app: "arm" }), "other_app");
  assert.equal(check({ now_ms: Date.parse("2027-04-01T00:00:00Z") }), "expired");
  for (const more of [
    { tag: "x" },
    { kind: "x" },
    { artifact_sha256: "b".repeat(64) },
    { artifact_size: 13 },
    { image: "x" },
    { manifest: {} },
  ])
    assert.equal(check({ release: { ...release, ...more } as typeof release }), "other_content", Object.keys(more)[0]);
});

test("accepts only a key statement with a higher serial, signed by a current key", () => {
  const [a, b, stranger] = [key(), key(), key()];
  const of = (...keys: { public_key: string }[]) => keys.map(({ public_key }, index) => ({ name: `k${index}`, public_key }));
  const take = (before: Trust | undefined, said: TrustStatement, by: KeyObject, org = "org_1") =>
    nextTrust(before, org, signTrust(said, by));
  const first = take(undefined, trust({ keys: of(a) }), a.private_key);
  assert.ok("trust" in first);
  assert.ok("refusal" in take(undefined, trust({ keys: of(a) }), stranger.private_key), "the first must sign itself");
  const second = take(first.trust, trust({ serial: 2, keys: of(a, b) }), a.private_key);
  assert.ok("trust" in second);
  const third = take(second.trust, trust({ serial: 3, keys: of(b) }), b.private_key);
  assert.ok("trust" in third);
  assert.deepEqual(third.trust, { serial: 3, require_signature: true, keys: of(b) });
  for (const [why, refused] of Object.entries({
    "a stranger's": take(third.trust, trust({ serial: 4, keys: of(stranger) }), stranger.private_key),
    "a revoked key's": take(third.trust, trust({ serial: 4, keys: of(a) }), a.private_key),
    replayed: take(third.trust, trust({ serial: 2, keys: of(a, b) }), a.private_key),
    "of the same serial": take(third.trust, trust({ serial: 3, keys: of(b), require_signature: false }), b.private_key),
    "another org's": take(third.trust, trust({ serial: 4, org_id: "org_2", keys: of(b) }), b.private_key),
    unreadable: nextTrust(third.trust, "org_1", { key_id: "x", text: "y", value: "z" }),
  }))
    assert.ok("refusal" in refused, why);
  // If there are no keys and no signature is required, a new first statement is accepted. A damaged store that requires signatures but has
  // no keys accepts nothing.
  assert.ok("trust" in take({ serial: 4, require_signature: false, keys: [] }, trust({ serial: 5, keys: of(a) }), a.private_key));
  assert.ok("refusal" in take({ serial: 0, require_signature: true, keys: [] }, trust({ serial: 5, keys: of(a) }), a.private_key));
});
