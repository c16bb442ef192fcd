import { hash, type KeyObject, verify } from "node:crypto";
import { ED25519_SPKI_PREFIX, publicKeyFromSpki } from "@roamfleet/protocol/signatures";

/**
 * Public keys of robots. A key in a file is an Ed25519 key: 32 raw bytes. A key in a TPM is a P-256 key, because TPMs do not support Ed25519:
 * 65 bytes, the uncompressed point of SEC 1. The length states the type.
 */
export type PublicKeyType = "ed25519" | "ecdsa_p256";

const ED25519_BYTES = 32;
const P256_POINT_BYTES = 65;
/** First byte of an uncompressed point (SEC 1). */
const UNCOMPRESSED = 4;
/** The constant bytes before the key in the SPKI encoding of a public key, by type of key (RFC 8410, RFC 5480). */
const SPKI_PREFIX: Record<PublicKeyType, Buffer> = {
  ed25519: ED25519_SPKI_PREFIX,
  ecdsa_p256: Buffer.from("3059301306072a8648ce3d020106082a8648ce3d030107034200", "hex"),
};
/** The hash algorithm that is applied to a text before signing. Null if the signature scheme includes its own. */
const DIGESTS: Record<PublicKeyType, string | null> = { ed25519: null, ecdsa_p256: "sha256" };

/** Returns the type of a public key by its length. */
export const publicKeyType = (public_key: Buffer): PublicKeyType => (public_key.length === P256_POINT_BYTES ? "ecdsa_p256" : "ed25519");

/**
 * Whether the bytes are a valid public key. False, for example, for a P-256 key that is not a point on the curve. Any 32 bytes are an Ed25519
 * key for OpenSSL, which would take 14 µs to say so.
 */
export function isPublicKey(public_key: Buffer): boolean {
  if (public_key.length === ED25519_BYTES) return true;
  if (public_key.length !== P256_POINT_BYTES || public_key[0] !== UNCOMPRESSED) return false;
  try {
    keyObject(public_key);
    return true;
  } catch {
    return false;
  }
}

const keyObject = (public_key: Buffer): KeyObject => publicKeyFromSpki(Buffer.concat([SPKI_PREFIX[publicKeyType(public_key)], public_key]));

/**
 * Whether `signature` is a valid signature of `text` for a robot's public key. The signature is in base64; an ECDSA signature is encoded in
 * DER.
 */
export const isSignedBy = (public_key: Buffer, text: string, signature: string): boolean =>
  verify(DIGESTS[publicKeyType(public_key)], Buffer.from(text), keyObject(public_key), Buffer.from(signature, "base64"));

/** Returns the fingerprint of a public key in the format of `ssh-keygen -l`. */
export const fingerprint = (public_key: Buffer): string => `SHA256:${hash("sha256", public_key, "base64").replace(/=+$/, "")}`;
