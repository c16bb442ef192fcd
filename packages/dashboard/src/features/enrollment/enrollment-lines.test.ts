import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { rootCertificates } from "node:tls";
import { fingerprintOfPem, installLine, isLoopback, runLine } from "./enrollment-lines.ts";

const line = { server: "https://fleet.example.com", key: "rf_enroll_00" };

test("the enrollment command contains the server address and the enrollment key", () => {
  assert.equal(runLine(line), "rf-agent run --server https://fleet.example.com --enroll-key rf_enroll_00 --state ./robot-state");
});

test("the enrollment commands contain the fingerprint of the server's certificate authority", () => {
  const pinned = { ...line, ca_fingerprint: "sha256:ab" };
  assert.match(runLine(pinned), / --ca-fingerprint sha256:ab --state /);
  assert.match(
    installLine(pinned),
    /^sudo rf-agent install .* --ca-fingerprint sha256:ab --state \/var\/lib\/roamfleet-agent\nsudo systemctl /,
  );
});

test("recognizes loopback addresses", () => {
  for (const host of ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "rf.localhost"]) assert.equal(isLoopback(host), true, host);
  for (const host of ["10.0.0.1", "fleet.example.com", "localhost.example.com", "1127.0.0.1"]) assert.equal(isLoopback(host), false, host);
});

test("computes the SHA-256 fingerprint of a PEM certificate", () => {
  for (const pem of rootCertificates.slice(0, 3)) {
    const expected = new X509Certificate(pem).fingerprint256.replaceAll(":", "").toLowerCase();
    assert.equal(fingerprintOfPem(pem), `sha256:${expected}`);
  }
});

test("returns undefined for text that is not a certificate", () => {
  assert.equal(fingerprintOfPem("<!doctype html>"), undefined);
  assert.equal(fingerprintOfPem(""), undefined);
});
