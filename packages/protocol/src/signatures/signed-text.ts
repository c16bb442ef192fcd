import { createPublicKey, hash, type KeyObject, sign, verify } from "node:crypto";
import { ED25519_SPKI_PREFIX, publicKeyFromSpki } from "./spki.ts";

/** A text and its Ed25519 signature, as they are transmitted and stored. The signature covers exactly the bytes of the text. */
export interface SignedText {
  /** Id of the signing key, as `keyIdOf` returns it for the public key. */
  key_id: string;
  text: string;
  /** base64 of the 64 bytes of the signature over the UTF-8 bytes of `text`. */
  value: string;
}

/** A named public key, as base64 of its 32 raw bytes. */
export interface TrustedKey {
  name: string;
  public_key: string;
}

export const SIGNED_TEXT_CHARACTERS_MAX = 64 * 1024;
const KEY_ID_DIGITS = 32;
const RAW_KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;

/** Returns the id of a public key: the first half of the SHA-256 of the raw key, in hex. It is collision-resistant. */
export const keyIdOf = (public_key: string): string => hash("sha256", Buffer.from(public_key, "base64")).slice(0, KEY_ID_DIGITS);

/** Returns base64 of the raw public half of an Ed25519 key; throws for a key of another type. */
export function publicKeyOf(key: KeyObject): string {
  if (key.asymmetricKeyType !== "ed25519") throw new TypeError(`an Ed25519 key is needed, not ${key.asymmetricKeyType ?? "a secret"}`);
  const public_half = key.type === "private" ? createPublicKey(key) : key;
  return public_half.export({ type: "spki", format: "der" }).subarray(ED25519_SPKI_PREFIX.length).toString("base64");
}

/** Returns whether a text is canonical base64 of 32 bytes, the length of an Ed25519 public key. */
export function isPublicKey(text: string): boolean {
  const bytes = Buffer.from(text, "base64");
  return bytes.length === RAW_KEY_BYTES && bytes.toString("base64") === text;
}

/**
 * Returns the text of a statement that is signed. The first line is the purpose, so that the signature is invalid for any other purpose.
 * The rest is the statement as canonical JSON.
 */
export const statementText = (purpose: string, statement: object): string => `${purpose}\n${canonicalJson(statement)}`;

/** Parses a signed text for this purpose; undefined if it has another purpose, is not a JSON object, or is not canonical. */
export function parseStatementText(purpose: string, text: string): Record<string, unknown> | undefined {
  if (text.length > SIGNED_TEXT_CHARACTERS_MAX || !text.startsWith(`${purpose}\n`)) return undefined;
  try {
    const value: unknown = JSON.parse(text.slice(purpose.length + 1));
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    // Accept only the canonical text of the statement. This rejects duplicate keys and other ambiguous forms.
    return statementText(purpose, value) === text ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

export const signText = (text: string, private_key: KeyObject): SignedText => ({
  key_id: keyIdOf(publicKeyOf(private_key)),
  text,
  value: sign(null, Buffer.from(text), private_key).toString("base64"),
});

/** Returns whether the holder of this key signed exactly this text. Never throws. */
export function isSignedBy({ text, value }: SignedText, public_key: string): boolean {
  const signature = Buffer.from(value, "base64");
  if (!isPublicKey(public_key) || signature.length !== SIGNATURE_BYTES || !text.isWellFormed()) return false;
  try {
    const key = publicKeyFromSpki(Buffer.concat([ED25519_SPKI_PREFIX, Buffer.from(public_key, "base64")]));
    return verify(null, Buffer.from(text), key, signature);
  } catch {
    return false;
  }
}

/** Parses untrusted input; undefined if it is not a signed text. */
export function parseSignedText(value: unknown): SignedText | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { key_id, text, value: signature } = value as Partial<Record<keyof SignedText, unknown>>;
  if (typeof key_id !== "string" || typeof text !== "string" || typeof signature !== "string") return undefined;
  return text.length > SIGNED_TEXT_CHARACTERS_MAX ? undefined : { key_id, text, value: signature };
}

/**
 * Returns the canonical text of a JSON value (RFC 8785): keys sorted by UTF-16 code units, no white space, numbers and strings as
 * ECMAScript writes them. Equal values produce equal bytes, so their digests can be compared. Throws for values that JSON cannot represent
 * exactly: non-finite numbers and strings with lone surrogates.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => `${canonicalJson(key)}:${canonicalJson(member)}`);
    return `{${members.join(",")}}`;
  }
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError("a non-finite number has no JSON text");
  if (typeof value === "string" && !value.isWellFormed()) throw new TypeError("a string with a lone surrogate has no JSON text");
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON text`);
  return text;
}
