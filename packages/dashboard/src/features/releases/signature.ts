import type { Release, SigningKeys } from "@roamfleet/protocol/routes";
import type { ReleaseStatement } from "@roamfleet/protocol/signatures";

const PURPOSE = "roamfleet-release-v1";

/** The signed fields of a release that the page shows. */
export interface Signed {
  key_id: string;
  text: string;
  value: string;
  said: Said;
}

type Said = Omit<ReleaseStatement, "org_id" | "image_configs" | "manifest_sha256">;

const isFields = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every((each) => typeof each === "string");

/** Parses the signature of a release; undefined if missing or invalid. Does not verify it. */
export function readSignature(signature: unknown): Signed | undefined {
  if (!isFields(signature)) return undefined;
  const { key_id, text, value } = signature;
  if (typeof key_id !== "string" || typeof text !== "string" || typeof value !== "string") return undefined;
  if (!text.startsWith(`${PURPOSE}\n`)) return undefined;
  try {
    const said: unknown = JSON.parse(text.slice(PURPOSE.length + 1));
    return isSaid(said) ? { key_id, text, value, said } : undefined;
  } catch {
    return undefined;
  }
}

function isSaid(said: unknown): said is Said {
  if (!isFields(said)) return false;
  const texts = ["app", "tag", "kind", "artifact_sha256", "issued_at", "expires_at"].every((name) => typeof said[name] === "string");
  const numbers = ["artifact_size", "version", "minimum_version"].every((name) => typeof said[name] === "number");
  return texts && numbers && (said.robots === null || isTexts(said.robots)) && (said.labels === null || isFields(said.labels));
}

export type Standing = "trusted" | "revoked" | "unknown_key" | "other_content" | "expired";

/** Evaluates whether robots of the organization accept a signature, without verifying it cryptographically. */
export function standingOf(release: Release, { said, key_id }: Signed, keys: SigningKeys["keys"], now_ms: number): Standing {
  const key = keys.find(({ id }) => id === key_id);
  if (key === undefined) return "unknown_key";
  if (key.revoked_at !== null) return "revoked";
  const fields = ["app", "tag", "kind", "artifact_sha256", "artifact_size", "image"] as const;
  if (fields.some((field) => said[field] !== release[field])) return "other_content";
  return Date.parse(said.expires_at) <= now_ms ? "expired" : "trusted";
}

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/**
 * Verifies a signature with a public key (base64 of its 32 raw bytes). Returns undefined if the browser cannot verify it, for example
 * because the page was loaded over plain HTTP. The server verified it on upload, and robots verify it themselves.
 */
export async function isSignedBy({ text, value }: Signed, public_key: string): Promise<boolean | undefined> {
  const subtle = globalThis.crypto?.subtle as SubtleCrypto | undefined;
  if (subtle === undefined) return undefined;
  try {
    const key = await subtle.importKey("raw", bytesOf(public_key), "Ed25519", false, ["verify"]);
    return await subtle.verify("Ed25519", key, bytesOf(value), new TextEncoder().encode(text));
  } catch {
    return undefined;
  }
}
