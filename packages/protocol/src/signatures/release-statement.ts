import { hash, type KeyObject } from "node:crypto";
import {
  canonicalJson,
  isSignedBy,
  keyIdOf,
  parseSignedText,
  parseStatementText,
  type SignedText,
  signText,
  statementText,
  type TrustedKey,
} from "./signed-text.ts";

const PURPOSE = "roamfleet-release-v1";

/** The statement that a release's maker signs: content, org, version, expiry and allowed robots. Times are RFC 3339. */
export interface ReleaseStatement {
  org_id: string;
  app: string;
  tag: string;
  kind: string;
  artifact_sha256: string;
  artifact_size: number;
  image: string | null;
  /**
   * SHA-256 (hex) of the config of each image in an uploaded archive. A config lists the layers of its image. null: robots download the
   * whole archive.
   */
  image_configs: string[] | null;
  /** SHA-256 (hex) of the manifest's canonical JSON; null without a manifest. */
  manifest_sha256: string | null;
  /**
   * Version number of the release, which increases with each release of the app. A robot rejects a version lower than one that it has run,
   * unless it has run exactly that release before.
   */
  version: number;
  /** Minimum version for robots that have run this release. They reject lower versions, even those that they ran before. 0: no minimum. */
  minimum_version: number;
  issued_at: string;
  /** Time from which robots reject the release. */
  expires_at: string;
  /** Ids of the robots that may install the release; null allows every robot of the org. */
  robots: string[] | null;
  /** Labels that the robot must have been started with; null allows any. */
  labels: Record<string, string> | null;
}

/** The parts of a release that must match its signed statement. */
export interface SignedRelease {
  tag: string;
  kind: string;
  artifact_sha256: string;
  artifact_size: number;
  image: string | null;
  manifest: unknown;
}

/** Name of the check that rejected a release. */
export type SignatureCheck =
  | "unsigned"
  | "malformed"
  | "unknown_key"
  | "bad_signature"
  | "other_org"
  | "other_app"
  | "other_content"
  | "expired"
  | "other_robot"
  | "downgrade"
  | "withdrawn";

export interface SignatureRefusal {
  check: SignatureCheck;
  /** A human-readable clause that names the wrong part of the release. */
  message: string;
}

export type SignatureVerdict = { statement: ReleaseStatement } | { refusal: SignatureRefusal };

export const VERSION_MAX = 2 ** 52;
export const SIGNED_ROBOTS_MAX = 1_000;

export const manifestDigest = (manifest: unknown): string | null =>
  manifest === null || manifest === undefined ? null : hash("sha256", canonicalJson(manifest));

export const signRelease = (statement: ReleaseStatement, private_key: KeyObject): SignedText =>
  signText(statementText(PURPOSE, statement), private_key);

/** Parses the statement of a signed text and validates every field; undefined for anything else. Does not verify the signature. */
export function parseReleaseStatement(text: string): ReleaseStatement | undefined {
  const value = parseStatementText(PURPOSE, text);
  if (value === undefined) return undefined;
  const fields = Object.keys(FIELDS) as (keyof ReleaseStatement)[];
  const whole = fields.every((field) => FIELDS[field](value[field])) && Object.keys(value).length === fields.length;
  return whole ? (value as unknown as ReleaseStatement) : undefined;
}

const isText = (value: unknown): boolean => typeof value === "string";
const isCount = (value: unknown): boolean => typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value <= VERSION_MAX;
const isTime = (value: unknown): boolean =>
  typeof value === "string" && /^\d{4}-\d\d-\d\dT.*Z$/.test(value) && !Number.isNaN(Date.parse(value));
const isTextRecord = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(isText);

const isTextList = (value: unknown): boolean => Array.isArray(value) && value.length <= SIGNED_ROBOTS_MAX && value.every(isText);

const FIELDS: Record<keyof ReleaseStatement, (value: unknown) => boolean> = {
  org_id: isText,
  app: isText,
  tag: isText,
  kind: isText,
  artifact_sha256: isText,
  artifact_size: isCount,
  image: (value) => value === null || isText(value),
  image_configs: (value) => value === null || isTextList(value),
  manifest_sha256: (value) => value === null || isText(value),
  version: isCount,
  minimum_version: isCount,
  issued_at: isTime,
  expires_at: isTime,
  robots: (value) => value === null || isTextList(value),
  labels: (value) => value === null || isTextRecord(value),
};

export interface ReleaseCheck {
  org_id: string;
  app: string;
  release: SignedRelease;
  /** The signature as received, not yet verified. */
  signature: unknown;
  keys: readonly TrustedKey[];
  /** The current time in milliseconds since 1970. */
  now_ms: number;
}

const refuse = (check: SignatureCheck, message: string): SignatureVerdict => ({ refusal: { check, message } });

/**
 * Verifies that one of these keys signed exactly this release for this org and app, and that the signature has not expired. Does not check
 * the allowed robots or the version. Pure. The server uses it to reject deployments that robots would refuse. The robot uses it because it
 * does not trust the server.
 */
export function checkSignedRelease({ org_id, app, release, signature, keys, now_ms }: ReleaseCheck): SignatureVerdict {
  if (signature === null || signature === undefined) return refuse("unsigned", `release ${release.tag} is not signed`);
  const signed = parseSignedText(signature);
  const statement = signed && parseReleaseStatement(signed.text);
  if (signed === undefined || statement === undefined)
    return refuse("malformed", `the signed text of release ${release.tag} is not a release statement`);
  const key = keys.find(({ public_key }) => keyIdOf(public_key) === signed.key_id);
  if (key === undefined)
    return refuse("unknown_key", `release ${release.tag} is signed by the key ${signed.key_id.slice(0, 64)}, which is not trusted`);
  if (!isSignedBy(signed, key.public_key))
    return refuse("bad_signature", `the signature of release ${release.tag} by the key ${signed.key_id} is invalid`);
  if (statement.org_id !== org_id) return refuse("other_org", `release ${release.tag} was signed for the org ${statement.org_id}`);
  if (statement.app !== app) return refuse("other_app", `release ${release.tag} was signed for the app ${statement.app}, not ${app}`);
  const different = differences(statement, release);
  if (different.length > 0)
    return refuse("other_content", `the signature of release ${release.tag} covers different content: ${different.join(", ")}`);
  if (Date.parse(statement.expires_at) <= now_ms)
    return refuse("expired", `the signature of release ${release.tag} expired at ${statement.expires_at}`);
  return { statement };
}

function differences(statement: ReleaseStatement, release: SignedRelease): string[] {
  const plain = (["tag", "kind", "artifact_sha256", "artifact_size", "image"] as const).filter(
    (field) => statement[field] !== release[field],
  );
  return statement.manifest_sha256 === digestOrNothing(release.manifest) ? plain : [...plain, "manifest"];
}

function digestOrNothing(manifest: unknown): string | null | undefined {
  try {
    return manifestDigest(manifest);
  } catch {
    return undefined;
  }
}

/** Returns a digest of a statement's content, without times and allowed robots: a release that is signed again has the same digest. */
export function contentDigest({
  org_id,
  app,
  tag,
  kind,
  artifact_sha256,
  artifact_size,
  image,
  manifest_sha256,
  version,
}: ReleaseStatement): string {
  return hash("sha256", canonicalJson({ org_id, app, tag, kind, artifact_sha256, artifact_size, image, manifest_sha256, version }));
}
