import assert from "node:assert/strict";
import { test } from "node:test";
import { parseFingerprint, requireFingerprint, UntrustedAuthority } from "./authority.ts";

const HEX = "0f".repeat(32);

test("parses fingerprints in roamfleet's and openssl's format", () => {
  const colons = HEX.toUpperCase().match(/../g)!.join(":");
  for (const text of [`sha256:${HEX}`, HEX, ` ${HEX}\n`, colons, `SHA256:${HEX.toUpperCase()}`, `sha256 Fingerprint=${colons}`])
    assert.equal(parseFingerprint(text), `sha256:${HEX}`, text);
  for (const text of ["", "sha256:", HEX.slice(1), `${HEX}0`, `sha1:${HEX}`, `sha512:${HEX}`, "sha256:zz"])
    assert.equal(parseFingerprint(text), undefined, text);
});

test("accepts only the certificate authority with the expected fingerprint", () => {
  const authority = { pem: "PEM", fingerprint: `sha256:${HEX}`, subject: "CN=x" };
  const presented = { trusted: false, reason: "SELF_SIGNED_CERT_IN_CHAIN", authority };
  assert.equal(requireFingerprint(presented, `sha256:${HEX}`), "PEM");
  assert.throws(
    () => requireFingerprint(presented, `sha256:${"00".repeat(32)}`),
    (error) => error instanceof UntrustedAuthority && error.presented === authority.fingerprint,
  );
  assert.throws(() => requireFingerprint({ ...presented, authority: undefined }, `sha256:${HEX}`), UntrustedAuthority);
});
