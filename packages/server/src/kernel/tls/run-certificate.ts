import { webcrypto } from "node:crypto";
import { fingerprintOf } from "@roamfleet/protocol/authority";
import type { KeyPair } from "./contract.ts";
import { BACKDATED_MS, loadX509, P256, pemOf, serial, SIGNED_BY } from "./x509.ts";

/** Longer than any run. The certificate is identified by its fingerprint and discarded with the process. */
const LIFE_MS = 10 * 365 * 86_400_000;

/** A pair that is valid for this run only: its key is in memory. */
export interface RunCertificate extends KeyPair {
  /** `sha256:` and 64 hex digits. */
  fingerprint: string;
}

/** Creates a key and a self-signed certificate, for two servers that identify each other by fingerprint. */
export async function runCertificate(now: Date): Promise<RunCertificate> {
  const x509 = await loadX509();
  const keys = await webcrypto.subtle.generateKey(P256, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: ["Roamfleet node"] }],
    serialNumber: serial(),
    notBefore: new Date(now.getTime() - BACKDATED_MS),
    notAfter: new Date(now.getTime() + LIFE_MS),
    signingAlgorithm: SIGNED_BY,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
    ],
  });
  const cert = `${certificate.toString("pem")}\n`;
  return { cert, key: await pemOf(keys.privateKey), fingerprint: fingerprintOf(cert) };
}
