import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

/** Bytes of a key: AES-256. */
export const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";

/** Associated data of a sealed text: it opens only with the same parts in the same order. */
export type Bound = readonly (string | number)[];

// As JSON, so that two different lists never give the same bytes.
const associated = (bound: Bound): Buffer => Buffer.from(JSON.stringify(["roamfleet", 1, ...bound]));

/** Encrypts and authenticates. Returns base64url of nonce, ciphertext and tag. The nonce is random: 2^32 texts per key are safe. */
export function seal(key: Buffer, plain: Uint8Array, bound: Bound): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES }).setAAD(associated(bound));
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString("base64url");
}

/** @throws if the key is wrong, or the text or its bound parts were changed. */
export function unseal(key: Buffer, sealed: string, bound: Bound): Buffer {
  const bytes = Buffer.from(sealed, "base64url");
  if (bytes.length < IV_BYTES + TAG_BYTES) throw new Error("the sealed text is too short");
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(associated(bound))
    .setAuthTag(bytes.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
}
