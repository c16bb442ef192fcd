import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import { test } from "node:test";
import { fingerprintOfPem } from "./fingerprint.ts";

test("hashes the bytes of the certificate, as openssl does", () => {
  for (const pem of rootCertificates.slice(0, 3)) {
    const expected = new X509Certificate(pem).fingerprint256.replaceAll(":", "").toLowerCase();
    assert.equal(fingerprintOfPem(pem), `sha256:${expected}`);
  }
});

test("returns undefined for text that is not a certificate", () => {
  assert.equal(fingerprintOfPem("<!doctype html>"), undefined);
  assert.equal(fingerprintOfPem(""), undefined);
});
