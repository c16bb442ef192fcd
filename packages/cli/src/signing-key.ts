import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Body } from "@roamfleet/sdk";
import type { SignedText, TrustedKey, TrustStatement } from "@roamfleet/protocol/signatures";
import type { Context } from "./context.ts";
import { usage } from "./failure.ts";

/** Reads the Ed25519 private key from a PEM file (PKCS 8, as `rf signing-keys new` and openssl write it). */
export async function readSigningKey(file: string): Promise<KeyObject> {
  return parsed(file, await readFile(file, "utf8"), createPrivateKey, "private");
}

/** Reads the raw public key, in base64, from a PEM file with either half. */
export async function readPublicKey(file: string): Promise<string> {
  const { publicKeyOf } = await import("@roamfleet/protocol/signatures");
  return publicKeyOf(parsed(file, await readFile(file, "utf8"), createPublicKey, "public"));
}

function parsed(file: string, pem: string, parse: (pem: string) => KeyObject, half: string): KeyObject {
  let key: KeyObject;
  try {
    key = parse(pem);
  } catch {
    // The original error message could quote the file.
    throw usage(`${file} does not contain a ${half} key in PEM format`, "Create one: rf signing-keys new <file>");
  }
  if (key.asymmetricKeyType !== "ed25519")
    throw usage(`${file} contains a key that is not Ed25519`, "Create one: rf signing-keys new <file>");
  return key;
}

/** The content of the next statement: the previous one with the given changes. */
export interface KeyChange {
  require_signature?: boolean;
  keys?: (before: readonly TrustedKey[]) => TrustedKey[];
}

export interface StatementOptions {
  sign: string;
  /** Id of a key that the user knows to be trusted. */
  known?: string;
  startOver?: boolean;
}

export const KNOWN_FLAG = "--known <id>";
export const KNOWN_HELP = "Id of a key that you trust; needed if the --sign key has never changed the keys";

/**
 * Signs the statement that changes the org's keys on this machine, and sends it. It repeats the current keys as proven by signed
 * statements, not as the server lists them. Throws a Failure if the statements do not prove them, or do not continue from the last ones
 * that this machine has seen.
 */
export async function changeSigningKeys(
  context: Context,
  { sign, known, startOver = false }: StatementOptions,
  change: KeyChange,
): Promise<Body<"changeSigningKeys">> {
  const { environment } = context;
  const client = await context.client();
  const listed = (await client.getSigningKeys()).data;
  const { org_id } = listed;
  const key = await readSigningKey(sign);
  const { publicKeyOf, signTrust } = await import("@roamfleet/protocol/signatures");
  const { provenTrust } = await import("./proven-keys.ts");
  const { rememberSerial, requireUnseen } = await import("./seen-serial.ts");
  // Starting over discards the previous keys, so there is nothing to prove.
  const before = startOver ? { ...listed, keys: [] } : provenTrust(listed, { public_key: publicKeyOf(key), known });
  const present = before?.keys ?? [];
  const serial = (before?.serial ?? 0) + 1;
  await requireUnseen(environment, org_id, serial);
  if (!startOver) await rememberSerial(environment, org_id, serial - 1);
  const said: TrustStatement = {
    org_id,
    serial,
    require_signature: change.require_signature ?? before?.require_signature ?? false,
    keys: change.keys?.(present) ?? present,
    issued_at: context.now().toISOString(),
  };
  const statement: SignedText = signTrust(said, key);
  const body = { statement, ...(startOver ? { start_over: true } : {}) };
  const answer = await client.changeSigningKeys({ body, idempotency_key: context.idempotencyKey() });
  await rememberSerial(environment, org_id, serial);
  return answer;
}
