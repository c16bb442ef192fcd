import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** Returns the fingerprint of a PEM certificate as `sha256:…`, for `rf-agent --ca-fingerprint`; undefined if there is no certificate. */
export function fingerprintOfPem(pem: string): string | undefined {
  const base64 = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/.exec(pem)?.[1];
  if (base64 === undefined) return undefined;
  const der = Uint8Array.from(atob(base64.replace(/\s/g, "")), (character) => character.charCodeAt(0));
  return `sha256:${bytesToHex(sha256(der))}`;
}
