import { createPublicKey, hash, type KeyObject, verify } from "node:crypto";

/**
 * Public keys of robots. A key in a file is an Ed25519 key: 32 raw bytes. A key in a TPM is a P-256 key, because TPMs do not support Ed25519:
 * 65 bytes, the uncompressed point of SEC 1. The length states the type.
 */
export type PublicKeyType = "ed25519" | "ecdsa_p256";

/** The bytes before the raw key in the SPKI encoding of the key (RFC 8410, RFC 5480). */
const SPKI_PREFIXES: Record<PublicKeyType, Buffer> = {
  ed25519: Buffer.from("302a300506032b6570032100", "hex"),
  ecdsa_p256: Buffer.from("3059301306072a8648ce3d020106082a8648ce3d030107034200", "hex"),
};
const ED25519_BYTES = 32;
const P256_POINT_BYTES = 65;
/** The hash algorithm that is applied to a text before signing. Null if the signature scheme includes its own. */
const DIGESTS: Record<PublicKeyType, string | null> = { ed25519: null, ecdsa_p256: "sha256" };

/** Returns the type of a public key by its length. */
export const publicKeyType = (public_key: Buffer): PublicKeyType => (public_key.length === P256_POINT_BYTES ? "ecdsa_p256" : "ed25519");

/**
 * Whether the bytes are a valid public key. False, for example, for a P-256 key that is not a point on the curve. Any 32 bytes are an Ed25519
 * key for OpenSSL, which would take 60 µs to say so.
 */
export function isPublicKey(public_key: Buffer): boolean {
  if (public_key.length === ED25519_BYTES) return true;
  try {
    keyObject(public_key);
    return true;
  } catch {
    return false;
  }
}

const keyObject = (public_key: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI_PREFIXES[publicKeyType(public_key)], public_key]), format: "der", type: "spki" });

/**
 * Whether `signature` is a valid signature of `text` for a robot's public key. The signature is in base64; an ECDSA signature is encoded in
 * DER.
 */
export const isSignedBy = (public_key: Buffer, text: string, signature: string): boolean =>
  verify(DIGESTS[publicKeyType(public_key)], Buffer.from(text), keyObject(public_key), Buffer.from(signature, "base64"));

/** Returns the fingerprint of a public key in the format of `ssh-keygen -l`. */
export const fingerprint = (public_key: Buffer): string => `SHA256:${hash("sha256", public_key, "base64").replace(/=+$/, "")}`;
