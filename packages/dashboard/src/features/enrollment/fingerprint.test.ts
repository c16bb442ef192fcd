import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import { test } from "node:test";
import { fingerprintOfPem } from "./fingerprint.ts";

test("the fingerprint is that of the certificate's bytes, as other programs show it", () => {
  for (const pem of rootCertificates.slice(0, 3)) {
    const theirs = new X509Certificate(pem).fingerprint256.replaceAll(":", "").toLowerCase();
    assert.equal(fingerprintOfPem(pem), `sha256:${theirs}`);
  }
});

test("what is no certificate has no fingerprint", () => {
  assert.equal(fingerprintOfPem("<!doctype html>"), undefined);
  assert.equal(fingerprintOfPem(""), undefined);
});
