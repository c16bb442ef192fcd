import { basename, join, resolve } from "node:path";
import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  isPublicKey,
  keyIdOf,
  parseTrustStatement,
  publicKeyOf,
  type SignedText,
  type Trust,
  type TrustedKey,
} from "@roamfleet/protocol/signatures";
import { makeDirectory, readJson, writeJson } from "../disk/write-atomically.ts";
import { UsageError } from "../config.ts";
import { lockState } from "../disk/lock.ts";
import { fieldsOf } from "../json.ts";

const trustFile = (state_directory: string): string => join(state_directory, "identity", "signing.json");

/** The trust that applies if the stored keys are damaged. No release is installed until keys are set again on this machine. */
const NO_KEYS: Trust = { serial: 0, require_signature: true, keys: [] };

/** Returns the keys that this robot trusts; undefined if it has never received any. */
export function readTrust(state_directory: string, damaged: () => void = () => {}): Trust | undefined {
  let is_damaged = false;
  const value = readJson(trustFile(state_directory), () => (is_damaged = true));
  const trust = parseTrust(value);
  if (trust === undefined && (is_damaged || value !== undefined)) {
    damaged();
    return NO_KEYS;
  }
  return trust;
}

export function writeTrust(state_directory: string, { serial, require_signature, keys }: Trust): void {
  makeDirectory(join(state_directory, "identity"));
  writeJson(trustFile(state_directory), { serial, require_signature, keys });
}

function parseTrust(value: unknown): Trust | undefined {
  const { serial, require_signature, keys } = fieldsOf(value);
  if (typeof serial !== "number" || typeof require_signature !== "boolean" || !Array.isArray(keys) || !keys.every(isKey)) return undefined;
  return { serial, require_signature, keys };
}

function isKey(value: unknown): value is TrustedKey {
  const { name, public_key } = fieldsOf(value);
  return typeof name === "string" && typeof public_key === "string" && isPublicKey(public_key);
}

/**
 * Pins the signing keys in the server's enrollment response (trust on first use). Keeps keys that were set on the robot before. A server
 * without signing sends none.
 */
export function pinAtEnrollment(state_directory: string, org_id: string, answered: SignedText | null): void {
  if (answered === null || readTrust(state_directory) !== undefined) return;
  const statement = parseTrustStatement(answered.text);
  if (statement === undefined || statement.org_id !== org_id) throw new Error("the response to the enrollment has unreadable signing keys");
  writeTrust(state_directory, statement);
}

export interface TrustKeyFlags {
  state: string;
  /** If true, unsigned releases are still accepted. */
  optional?: boolean;
}

/**
 * Makes the robot trust only these public keys (PEM files). No other authorization is needed than access to this machine. The agent must
 * not run meanwhile. The serial number of the last applied key statement is kept; the next statement must be signed by one of the new keys.
 */
export function trustKeys(files: readonly string[], { state, optional = false }: TrustKeyFlags, print: (text: string) => void): void {
  const keys = files.map(readKey);
  const state_directory = resolve(state);
  makeDirectory(state_directory);
  const unlock = lockState(state_directory);
  try {
    const serial = readTrust(state_directory)?.serial ?? 0;
    writeTrust(state_directory, { serial, require_signature: !optional, keys });
  } finally {
    unlock();
  }
  const names = keys.map(({ name, public_key }) => `${name} (${keyIdOf(public_key)})`).join(", ");
  print(`this robot trusts releases signed by ${names}${optional ? ", and also accepts unsigned releases" : ", and no others"}\n`);
}

function readKey(file: string): TrustedKey {
  const pem = readFileSync(file, "utf8");
  try {
    return { name: basename(file).replace(/(?:\.pem)?(?:\.pub)?$/, ""), public_key: publicKeyOf(createPublicKey(pem)) };
  } catch {
    throw new UsageError(`${file} contains no Ed25519 key in PEM format; \`rf signing-keys new\` creates one`);
  }
}
