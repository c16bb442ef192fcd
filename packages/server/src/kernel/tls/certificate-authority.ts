import { createPrivateKey, type KeyObject, webcrypto, X509Certificate } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { isIP } from "node:net";
import path from "node:path";
import type * as x509Library from "@peculiar/x509";
import { fingerprintOf } from "@roamfleet/protocol/authority";
import { readIfPresent, writeDurably } from "../files.ts";
import { type KeyPair, TlsError } from "./tls.ts";

/**
 * Version of this program, and a time before its release: a clock that shows an earlier time is wrong. A test compares the version with
 * package.json, so that each release updates the time.
 */
export const RELEASED = { version: "0.1.0", not_before: new Date("2026-11-01T00:00:00Z") } as const;

/** The clock's time, or `RELEASED.not_before` when that is later. */
const plausibleTime = (now: Date): Date => (now < RELEASED.not_before ? RELEASED.not_before : now);

/**
 * Certificates are valid from this long before their issue time, because the clocks of robots and other servers may be behind. Some clocks
 * start at the time of the machine's last shutdown.
 */
export const BACKDATED_MS = 86_400_000;

const P256 = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNED_BY = { name: "ECDSA", hash: "SHA-256" } as const;

/** Loads the X.509 library on demand, because loading takes 150 ms and only servers that create certificates need it. */
async function loadX509(): Promise<typeof x509Library> {
  await import("reflect-metadata");
  return import("@peculiar/x509");
}

const pemOf = async (key: webcrypto.CryptoKey): Promise<string> =>
  createPrivateKey({ key: Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key)), format: "der", type: "pkcs8" })
    .export({ type: "pkcs8", format: "pem" })
    .toString();

/** Returns a positive, unpredictable number of 16 bytes. */
function serial(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = (bytes[0]! & 0x3f) | 0x40;
  return Buffer.from(bytes).toString("hex");
}

const DAY_MS = 86_400_000;
const CA_DAYS = 10 * 365 + 2;
/** Lifetime of a server certificate. It is short, because renewal is automatic. Browsers and phones refuse lifetimes over 398 days. */
const LEAF_DAYS = 90;

/** A certificate authority (CA) of this server alone. Its key never leaves the data directory. */
export interface OwnAuthority {
  pem: string;
  fingerprint: string;
  file: string;
  /** End of the CA's own certificate. No issued certificate is valid longer. */
  ends_at: Date;
  /** Returns the issue time of a certificate: the clock's time, but not before this program or the CA existed. */
  timeOf(now: Date): Date;
  /** Creates a key, and a certificate for the key and these names and addresses. */
  issue(names: readonly string[], now: Date): Promise<KeyPair>;
}

export const authorityFile = (data_directory: string): string => path.join(data_directory, "tls", "ca.pem");

/**
 * Opens the CA of a data directory, or creates one. If a crash interrupts the creation, the next call completes it. Throws a TlsError if
 * the CA cannot be used.
 */
export async function openAuthority(data_directory: string, now: Date): Promise<OwnAuthority> {
  const file = authorityFile(data_directory);
  const key_file = path.join(path.dirname(file), "ca-key.pem");
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  const known = await readIfPresent(file);
  let key_pem = await readIfPresent(key_file);
  if (key_pem === undefined) {
    if (known !== undefined)
      throw new TlsError(`the key ${key_file} of ${file} is missing: restore it from a backup, or remove both files`);
    // The key is written first: a certificate without it would be useless.
    key_pem = await newKeyPem();
    await writeDurably(key_file, key_pem, 0o600);
  }
  const key = createPrivateKey(key_pem);
  const pem = known ?? (await selfSigned(key, plausibleTime(now)));
  if (known === undefined) await writeDurably(file, pem, 0o644);
  const certificate = new X509Certificate(pem);
  if (!certificate.checkPrivateKey(key)) throw new TlsError(`${key_file} is not the key of ${file}`);
  const { validToDate: ends_at, validFromDate } = certificate;
  if (ends_at <= now)
    throw new TlsError(
      `${file} expired on ${dayOf(ends_at)} and the clock shows ${dayOf(now)}: set the clock if it is wrong; otherwise remove the file and start again, then distribute the new fingerprint to robots and users`,
    );
  const made_at = validFromDate.getTime() + BACKDATED_MS;
  const timeOf = (at: Date): Date => new Date(Math.max(plausibleTime(at).getTime(), made_at));
  const signer = { pem, key, certificate };
  return { pem, file, fingerprint: fingerprintOf(pem), ends_at, timeOf, issue: (names, at) => issue(signer, names, timeOf(at)) };
}

const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

async function newKeyPem(): Promise<string> {
  const { privateKey } = await webcrypto.subtle.generateKey(P256, true, ["sign", "verify"]);
  return pemOf(privateKey);
}

/** Converts a private key to the key pair that the X.509 library takes. */
async function cryptoKeys(key: KeyObject): Promise<webcrypto.CryptoKeyPair> {
  const jwk = key.export({ format: "jwk" });
  const { d: _secret, ...public_jwk } = jwk;
  return {
    privateKey: await webcrypto.subtle.importKey("jwk", jwk as webcrypto.JsonWebKey, P256, false, ["sign"]),
    publicKey: await webcrypto.subtle.importKey("jwk", public_jwk as webcrypto.JsonWebKey, P256, true, ["verify"]),
  };
}

async function selfSigned(key: KeyObject, now: Date): Promise<string> {
  const x509 = await loadX509();
  const keys = await cryptoKeys(key);
  const id = Buffer.from(webcrypto.getRandomValues(new Uint8Array(4))).toString("hex");
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // The name is unique, because a trust store may confuse two CAs with the same name.
    name: [{ CN: [`Roamfleet CA ${id}`] }],
    serialNumber: serial(),
    notBefore: new Date(now.getTime() - BACKDATED_MS),
    notAfter: new Date(now.getTime() + CA_DAYS * DAY_MS),
    signingAlgorithm: SIGNED_BY,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return `${certificate.toString("pem")}\n`;
}

interface Signer {
  pem: string;
  key: KeyObject;
  certificate: X509Certificate;
}

async function issue(signer: Signer, names: readonly string[], now: Date): Promise<KeyPair> {
  const x509 = await loadX509();
  const keys = await webcrypto.subtle.generateKey(P256, true, ["sign", "verify"]);
  const authority = new x509.X509Certificate(signer.pem);
  const ends = Math.min(now.getTime() + LEAF_DAYS * DAY_MS, signer.certificate.validToDate.getTime());
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [{ CN: ["Roamfleet server"] }],
    issuer: authority.subjectName,
    serialNumber: serial(),
    notBefore: new Date(now.getTime() - BACKDATED_MS),
    notAfter: new Date(ends),
    signingAlgorithm: SIGNED_BY,
    publicKey: keys.publicKey,
    signingKey: (await cryptoKeys(signer.key)).privateKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: isIP(value) === 0 ? "dns" : "ip", value }))),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey),
    ],
  });
  // Includes the CA's certificate, so that a client that does not have it can show its fingerprint.
  return { cert: `${certificate.toString("pem")}\n${signer.pem}`, key: await pemOf(keys.privateKey) };
}

/** Lifetime of a run certificate, longer than any run. Peers identify it by its fingerprint, and it is discarded with the process. */
const LIFE_MS = 10 * 365 * 86_400_000;

/** A key pair for one run of a server. The private key exists only in memory. */
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
