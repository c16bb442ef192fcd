import { createPrivateKey, webcrypto } from "node:crypto";
import type * as x509Library from "@peculiar/x509";

/**
 * Certificates start this much in the past: the clocks of robots and other servers may be behind, and some start at the time of the last
 * shutdown.
 */
export const BACKDATED_MS = 86_400_000;

export const P256 = { name: "ECDSA", namedCurve: "P-256" } as const;
export const SIGNED_BY = { name: "ECDSA", hash: "SHA-256" } as const;

/** Loads the library on demand. It takes 150 ms, only on servers that create certificates. */
export async function loadX509(): Promise<typeof x509Library> {
  await import("reflect-metadata");
  return import("@peculiar/x509");
}

export const pemOf = async (key: webcrypto.CryptoKey): Promise<string> =>
  createPrivateKey({ key: Buffer.from(await webcrypto.subtle.exportKey("pkcs8", key)), format: "der", type: "pkcs8" })
    .export({ type: "pkcs8", format: "pem" })
    .toString();

/** Returns a positive, unpredictable number of 16 bytes. */
export function serial(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = (bytes[0]! & 0x3f) | 0x40;
  return Buffer.from(bytes).toString("hex");
}
