import { join } from "node:path";
import { isPublicKey, parseTrustStatement, type SignedText, type Trust, type TrustedKey } from "@roamfleet/protocol/signatures";
import { makeDirectory, readJson, writeJson } from "../disk/write-atomically.ts";

const trustFile = (state_directory: string): string => join(state_directory, "identity", "signing.json");

/** What a damaged file stands for: nothing is installed until somebody says on this machine whom to trust. */
const NOBODY: Trust = { serial: 0, require_signature: true, keys: [] };

/** The keys that this robot trusts; undefined when it was never told of any. */
export function readTrust(state_directory: string, damaged: () => void = () => {}): Trust | undefined {
  let is_damaged = false;
  const value = readJson(trustFile(state_directory), () => (is_damaged = true));
  const trust = parseTrust(value);
  if (trust === undefined && (is_damaged || value !== undefined)) {
    damaged();
    return NOBODY;
  }
  return trust;
}

export function writeTrust(state_directory: string, { serial, require_signature, keys }: Trust): void {
  makeDirectory(join(state_directory, "identity"));
  writeJson(trustFile(state_directory), { serial, require_signature, keys });
}

function parseTrust(value: unknown): Trust | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { serial, require_signature, keys } = value as Partial<Record<keyof Trust, unknown>>;
  if (typeof serial !== "number" || typeof require_signature !== "boolean" || !Array.isArray(keys) || !keys.every(isKey)) return undefined;
  return { serial, require_signature, keys };
}

function isKey(value: unknown): value is TrustedKey {
  if (typeof value !== "object" || value === null) return false;
  const { name, public_key } = value as Partial<Record<keyof TrustedKey, unknown>>;
  return typeof name === "string" && typeof public_key === "string" && isPublicKey(public_key);
}

/**
 * Pins the keys that the answer to the enrolment names, as at the first contact there is nobody else to ask; keys that
 * somebody gave this robot on its own machine before stay. A server that knows no signing answers none.
 */
export function pinAtEnrolment(state_directory: string, org_id: string, answered: SignedText | null): void {
  if (answered === null || readTrust(state_directory) !== undefined) return;
  const statement = parseTrustStatement(answered.text);
  if (statement === undefined || statement.org_id !== org_id)
    throw new Error("the answer to the enrolment has signing keys that cannot be read");
  writeTrust(state_directory, statement);
}
