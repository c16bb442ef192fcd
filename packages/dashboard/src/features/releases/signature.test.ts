import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import type { Release, SigningKeys } from "@roamfleet/protocol/routes";
import { publicKeyOf, signRelease } from "@roamfleet/protocol/signatures";
import { isSignedBy, readSignature, standingOf } from "./signature.ts";

const { privateKey: private_key } = generateKeyPairSync("ed25519");
const public_key = publicKeyOf(private_key);
const content = { app: "main", tag: "a-1", kind: "file", artifact_sha256: "0".repeat(64), artifact_size: 5, image: null };
const release = { ...content, notes: null, manifest: null } as unknown as Release;
const signature = signRelease(
  {
    ...content,
    org_id: "org_a",
    image_configs: null,
    manifest_sha256: null,
    version: 7,
    minimum_version: 0,
    issued_at: "2030-01-01T00:00:00Z",
    expires_at: "2030-02-01T00:00:00Z",
    robots: null,
    labels: { model: "amr" },
  },
  private_key,
);
const BEFORE = Date.parse("2030-01-15T00:00:00Z");
const keys = (change: Partial<SigningKeys["keys"][number]> = {}): SigningKeys["keys"] => [
  { id: signature.key_id, name: "release key", public_key, added_at: "2030-01-01T00:00:00Z", revoked_at: null, ...change },
];

test("parses and verifies a release signature made by rf", async () => {
  const signed = readSignature(signature);
  assert.ok(signed);
  assert.equal(signed.said.version, 7);
  assert.deepEqual(signed.said.labels, { model: "amr" });
  assert.equal(await isSignedBy(signed, public_key), true);
  assert.equal(await isSignedBy({ ...signed, text: signed.text.replace("a-1", "a-2") }, public_key), false);
});

test("evaluates a release signature by its key, content and expiry", () => {
  const signed = readSignature(signature);
  assert.ok(signed);
  assert.equal(standingOf(release, signed, keys(), BEFORE), "trusted");
  assert.equal(standingOf(release, signed, keys({ revoked_at: "2030-01-02T00:00:00Z" }), BEFORE), "revoked");
  assert.equal(standingOf(release, signed, [], BEFORE), "unknown_key");
  assert.equal(standingOf({ ...release, tag: "a-2" }, signed, keys(), BEFORE), "other_content");
  assert.equal(standingOf(release, signed, keys(), Date.parse("2030-02-01T00:00:00Z")), "expired");
});

test("returns undefined for anything but a release signature", () => {
  for (const other of [null, undefined, {}, { ...signature, text: "roamfleet-trust-v1\n{}" }, { ...signature, text: `${signature.text}}` }])
    assert.equal(readSignature(other), undefined);
});
