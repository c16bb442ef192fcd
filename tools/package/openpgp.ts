import { createHash, createPublicKey, type KeyObject, sign } from "node:crypto";

/**
 * Makes the signatures of OpenPGP (RFC 4880, version 4) that apt verifies, with an Ed25519 key. The same key, text and time give the same
 * signature. gpg cannot read a key in PEM, and needs a keyring on disk and a second process.
 */

const TAG_SIGNATURE = 2;
const TAG_PUBLIC_KEY = 6;
const TAG_USER_ID = 13;
const VERSION = 4;
const EDDSA = 22;
const SHA512 = 10;
const SIGNS_BYTES = 0x00;
const SIGNS_TEXT = 0x01;
const CERTIFIES_USER = 0x13;
const SUBPACKET_TIME = 2;
const SUBPACKET_ISSUER = 16;
const SUBPACKET_FLAGS = 27;
const SUBPACKET_FINGERPRINT = 33;
const MAY_CERTIFY_AND_SIGN = 0x03;
/** Object identifier of the curve, 1.3.6.1.4.1.11591.15.1, with its length. */
const CURVE = Buffer.from("092b06010401da470f01", "hex");
/**
 * Creation time of every key. It is part of the fingerprint, so it must not change. It is 2000-01-01, because a later time is invalid on a
 * machine whose clock is slow.
 */
const KEY_TIME = 946_684_800;
const PUBLIC_KEY_BYTES = 32;
const KEY_ID_BYTES = 8;

const number = (value: number, bytes: number): Buffer => {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
};
const packet = (tag: number, body: Buffer): Buffer => Buffer.concat([Buffer.of(0xc0 | tag, 0xff), number(body.length, 4), body]);
const subpacket = (type: number, body: Buffer): Buffer => Buffer.concat([Buffer.of(body.length + 1, type), body]);

/** Encodes an integer: its length in bits, then its bytes without leading zeros. */
function integer(bytes: Buffer): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0);
  const digits = start < 0 ? Buffer.alloc(0) : bytes.subarray(start);
  const bits = digits.length === 0 ? 0 : digits.length * 8 - (Math.clz32(digits[0] as number) - 24);
  return Buffer.concat([number(bits, 2), digits]);
}

function publicKeyBody(key: KeyObject): Buffer {
  const point = createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-PUBLIC_KEY_BYTES);
  return Buffer.concat([
    Buffer.of(VERSION),
    number(KEY_TIME, 4),
    Buffer.of(EDDSA),
    CURVE,
    integer(Buffer.concat([Buffer.of(0x40), point])),
  ]);
}

/** The form of a public key that is hashed for its fingerprint and for certifications. */
const hashedKey = (body: Buffer): Buffer => Buffer.concat([Buffer.of(0x99), number(body.length, 2), body]);

/** Returns the packet of a signature of `content`. `time`: seconds since 1970. */
function signature(type: number, content: Buffer, key: KeyObject, time: number, more: readonly Buffer[] = []): Buffer {
  const fingerprint = createHash("sha1")
    .update(hashedKey(publicKeyBody(key)))
    .digest();
  const issuer = subpacket(SUBPACKET_FINGERPRINT, Buffer.concat([Buffer.of(VERSION), fingerprint]));
  const hashed = Buffer.concat([subpacket(SUBPACKET_TIME, number(time, 4)), issuer, ...more]);
  const head = Buffer.concat([Buffer.of(VERSION, type, EDDSA, SHA512), number(hashed.length, 2), hashed]);
  const trailer = Buffer.concat([Buffer.of(VERSION, 0xff), number(head.length, 4)]);
  const digest = createHash("sha512").update(content).update(head).update(trailer).digest();
  const signed = sign(null, digest, key);
  const unhashed = subpacket(SUBPACKET_ISSUER, fingerprint.subarray(-KEY_ID_BYTES));
  const values = [integer(signed.subarray(0, 32)), integer(signed.subarray(32))];
  return packet(TAG_SIGNATURE, Buffer.concat([head, number(unhashed.length, 2), unhashed, digest.subarray(0, 2), ...values]));
}

/** Returns the public key as a keyring file for apt's `signed-by`. */
export function keyring(key: KeyObject, user: string): Buffer {
  const body = publicKeyBody(key);
  const name = Buffer.from(user);
  const certified = Buffer.concat([hashedKey(body), Buffer.of(0xb4), number(name.length, 4), name]);
  const flags = subpacket(SUBPACKET_FLAGS, Buffer.of(MAY_CERTIFY_AND_SIGN));
  const certification = signature(CERTIFIES_USER, certified, key, KEY_TIME, [flags]);
  return Buffer.concat([packet(TAG_PUBLIC_KEY, body), packet(TAG_USER_ID, name), certification]);
}

/** Returns a detached signature of a text (`Release.gpg`). */
export const signDetached = (text: string, key: KeyObject, time: number): string =>
  armor(signature(SIGNS_BYTES, Buffer.from(text), key, time));

/** Returns a text with its signature in one file (`InRelease`). No line of the text may start with a dash or end with a space. */
export function signInline(text: string, key: KeyObject, time: number): string {
  if (/^-|[ \t]$/m.test(text)) throw new Error("the text has a line that would have to be escaped");
  const canonical = text.replace(/\n$/, "").replaceAll("\n", "\r\n");
  const signed = signature(SIGNS_TEXT, Buffer.from(canonical), key, time);
  return `-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n${text.replace(/\n$/, "")}\n${armor(signed)}`;
}

const LINE_CHARACTERS = /.{1,64}/g;

function armor(bytes: Buffer): string {
  const lines = bytes.toString("base64").match(LINE_CHARACTERS) ?? [];
  return `-----BEGIN PGP SIGNATURE-----\n\n${lines.join("\n")}\n=${number(crc24(bytes), 3).toString("base64")}\n-----END PGP SIGNATURE-----\n`;
}

/** The checksum at the end of an armored block. */
function crc24(bytes: Buffer): number {
  let crc = 0xb7_04_ce;
  for (const byte of bytes) {
    crc ^= byte << 16;
    for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ ((crc & 0x80_00_00) === 0 ? 0 : 0x1_86_4c_fb);
  }
  return crc & 0xff_ff_ff;
}
