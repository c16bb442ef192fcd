import type { KeyObject } from "node:crypto";
import {
  isPublicKey,
  isSignedBy,
  keyIdOf,
  parseSignedText,
  parseStatementText,
  type SignedText,
  signText,
  statementText,
  type TrustedKey,
} from "./signed-text.ts";

const PURPOSE = "roamfleet-trust-v1";

/** A statement of the keys that an org's robots trust. Each statement is complete and is signed by a key of the previous statement. */
export interface TrustStatement {
  org_id: string;
  /** Serial number of the statement, from 1. A statement replaces all statements of the org with a lower number. */
  serial: number;
  /** Whether robots refuse unsigned releases. */
  require_signature: boolean;
  keys: TrustedKey[];
  issued_at: string;
}

/** What the latest valid statement of an org requires of its robots: the keys to trust, and whether to refuse unsigned releases. */
export interface Trust {
  serial: number;
  require_signature: boolean;
  keys: TrustedKey[];
}

export const SIGNING_KEYS_MAX = 32;
export const KEY_NAME_CHARACTERS_MAX = 200;

export const signTrust = (statement: TrustStatement, private_key: KeyObject): SignedText =>
  signText(statementText(PURPOSE, statement), private_key);

/** Parses the statement of a signed text; undefined for anything else. Does not verify the signature. */
export function parseTrustStatement(text: string): TrustStatement | undefined {
  const value = parseStatementText(PURPOSE, text);
  if (value === undefined || Object.keys(value).length !== 5) return undefined;
  const { org_id, serial, require_signature, keys, issued_at } = value;
  if (typeof org_id !== "string" || typeof issued_at !== "string" || Number.isNaN(Date.parse(issued_at))) return undefined;
  if (typeof serial !== "number" || !Number.isSafeInteger(serial) || serial < 1 || typeof require_signature !== "boolean") return undefined;
  if (!Array.isArray(keys) || keys.length > SIGNING_KEYS_MAX || !keys.every(isTrustedKey)) return undefined;
  if (new Set(keys.map(({ public_key }) => public_key)).size !== keys.length) return undefined;
  return { org_id, serial, require_signature, keys, issued_at };
}

function isTrustedKey(value: unknown): value is TrustedKey {
  if (typeof value !== "object" || value === null || Object.keys(value).length !== 2) return false;
  const { name, public_key } = value as Partial<Record<keyof TrustedKey, unknown>>;
  return (
    typeof name === "string" &&
    name.length > 0 &&
    name.length <= KEY_NAME_CHARACTERS_MAX &&
    typeof public_key === "string" &&
    isPublicKey(public_key)
  );
}

/**
 * Returns the trust after a signed statement, or the reason why the statement is refused. The statement must be for this org, have a higher
 * serial, and be signed by a trusted key. If there is no previous statement, or if the previous one has no keys and requires no signatures,
 * a key in the statement itself must have signed it instead.
 */
export function nextTrust(before: Trust | undefined, org_id: string, signed_text: unknown): { trust: Trust } | { refusal: string } {
  const signed = parseSignedText(signed_text);
  const statement = signed && parseTrustStatement(signed.text);
  if (signed === undefined || statement === undefined) return { refusal: "it is not a trust statement" };
  if (statement.org_id !== org_id) return { refusal: `it is for the org ${statement.org_id}` };
  if (statement.serial <= (before?.serial ?? 0)) return { refusal: `its serial ${statement.serial} is not above ${before?.serial ?? 0}` };
  const is_first = before === undefined || (before.keys.length === 0 && !before.require_signature);
  const signers = is_first ? statement.keys : before.keys;
  const signer = signers.find(({ public_key }) => keyIdOf(public_key) === signed.key_id);
  if (signer === undefined) return { refusal: `it is signed by the key ${signed.key_id.slice(0, 64)}, which is not trusted` };
  if (!isSignedBy(signed, signer.public_key)) return { refusal: `the signature by the key ${signed.key_id} is invalid` };
  const { serial, require_signature, keys } = statement;
  return { trust: { serial, require_signature, keys } };
}
