import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Client } from "@robofleet/sdk";
import type { Body } from "@robofleet/sdk";
import type { SignedText, TrustedKey, TrustStatement } from "@robofleet/protocol/signatures";
import { usage } from "./failure.ts";

/** The Ed25519 private key in a PEM file (PKCS 8, as `rf signing-keys new` and openssl write it). */
export async function readSigningKey(file: string): Promise<KeyObject> {
  return parsed(file, await readFile(file, "utf8"), createPrivateKey, "private");
}

/** The raw public key, in base64, of a PEM file that holds either half. */
export async function readPublicKey(file: string): Promise<string> {
  const { publicKeyOf } = await import("@robofleet/protocol/signatures");
  return publicKeyOf(parsed(file, await readFile(file, "utf8"), createPublicKey, "public"));
}

function parsed(file: string, pem: string, parse: (pem: string) => KeyObject, half: string): KeyObject {
  let key: KeyObject;
  try {
    key = parse(pem);
  } catch {
    // The error's own words could quote the file.
    throw usage(`${file} holds no ${half} key in PEM form`, "Make one: rf signing-keys new <file>");
  }
  if (key.asymmetricKeyType !== "ed25519")
    throw usage(`${file} holds a key of another kind than Ed25519`, "Make one: rf signing-keys new <file>");
  return key;
}

type Keys = Body<"getSigningKeys">["data"];

/** What the next statement says: all that the one before said, but for what is given. */
export interface KeyChange {
  require_signature?: boolean;
  keys?: (before: readonly TrustedKey[]) => TrustedKey[];
}

export interface StatementOptions {
  sign: string;
  startOver?: boolean;
}

/** Reads the org's keys, signs the statement that changes them, on this machine, and sends it. */
export async function changeSigningKeys(
  client: Client,
  now: Date,
  { sign, startOver = false }: StatementOptions,
  change: KeyChange,
  idempotency_key: string,
): Promise<Body<"changeSigningKeys">> {
  const before: Keys = (await client.getSigningKeys()).data;
  const { signTrust } = await import("@robofleet/protocol/signatures");
  const present = before.keys.filter(({ revoked_at }) => revoked_at === null).map(({ name, public_key }) => ({ name, public_key }));
  const said: TrustStatement = {
    org_id: before.org_id,
    serial: before.serial + 1,
    require_signature: change.require_signature ?? before.require_signature,
    keys: change.keys?.(present) ?? present,
    issued_at: now.toISOString(),
  };
  const statement: SignedText = signTrust(said, await readSigningKey(sign));
  return await client.changeSigningKeys({ body: { statement, ...(startOver ? { start_over: true } : {}) }, idempotency_key });
}
