import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import { manifestDigest, type SignedText, signRelease, type TrustedKey, type TrustStatement } from "@roamfleet/protocol/signatures";
import type { Body, Client } from "@roamfleet/sdk";
import type { Command } from "commander";
import { collect, wholeNumber } from "./command.ts";
import type { Context } from "./context.ts";
import { usage } from "./failure.ts";

/** Reads the Ed25519 private key from a PEM file (PKCS 8, as `rf signing-keys new` and openssl write it). */
export async function readSigningKey(file: string): Promise<KeyObject> {
  return parsed(file, await readFile(file, "utf8"), createPrivateKey, "private");
}

/** Reads the public key, as base64 of its raw bytes, from a PEM file with the private or the public key. */
export async function readPublicKey(file: string): Promise<string> {
  const { publicKeyOf } = await import("@roamfleet/protocol/signatures");
  return publicKeyOf(parsed(file, await readFile(file, "utf8"), createPublicKey, "public"));
}

function parsed(file: string, pem: string, parse: (pem: string) => KeyObject, half: string): KeyObject {
  let key: KeyObject;
  try {
    key = parse(pem);
  } catch {
    // The original error message is dropped, because it could quote the file.
    throw usage(`${file} does not contain a ${half} key in PEM format`, "Create one: rf signing-keys new <file>");
  }
  if (key.asymmetricKeyType !== "ed25519")
    throw usage(`${file} contains a key that is not Ed25519`, "Create one: rf signing-keys new <file>");
  return key;
}

/** The changes in the next key statement. The statement repeats everything else from the previous statement. */
export interface KeyChange {
  require_signature?: boolean;
  keys?: (before: readonly TrustedKey[]) => TrustedKey[];
}

export interface StatementOptions {
  sign: string;
  /** Id of a key that the user trusts. Statements that it signed prove the other keys. */
  known?: string;
  startOver?: boolean;
}

export const KNOWN_FLAG = "--known <id>";
export const KNOWN_HELP =
  "ID of a signing key that you already trust; needed if the --sign key has not signed a change of the key list yet";

/**
 * Changes the org's keys: signs the next statement on this machine and sends it. The statement repeats the current keys as proven by
 * signed statements, not as listed by the server. Throws a Failure if the statements do not prove the keys, or are older than statements
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
  const { rememberSerial, requireUnseen } = await import("./proven-keys.ts");
  // If the user starts over, the previous keys are discarded, so they need no proof.
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

const SIGNATURE_DAYS_DEFAULT = 365;
const DAY_MS = 86_400_000;

export interface SignOptions {
  sign?: string;
  releaseVersion?: number;
  minimumVersion?: number;
  signatureDays?: number;
  forRobot?: string[];
  forLabel?: string[];
}

export function signOptions(command: Command): Command {
  return command
    .option("--sign <key>", "Sign the release on this machine with the Ed25519 private key in this PEM file")
    .option(
      "--release-version <n>",
      "Version in the signature, which must increase with each release of the app (default: Unix time in seconds)",
      wholeNumber(0),
    )
    .option("--minimum-version <n>", "Robots that have run this release reject lower versions; part of the signature", wholeNumber(0))
    .option("--signature-days <n>", "Robots reject the release after this many days; part of the signature (default: 365)", wholeNumber(1))
    .option("--for-robot <id>", "Only this robot accepts the release; part of the signature (repeatable)", collect)
    .option(
      "--for-label <key=value>",
      "Only robots whose agent was started with this label accept the release; part of the signature (repeatable)",
      collect,
    );
}

/** The request body of a new release, with defaults applied. */
export interface UnsignedRelease {
  tag: string;
  app?: string | undefined;
  kind: string;
  artifact_sha256: string;
  artifact_size: number;
  image?: string | undefined;
  manifest?: Record<string, unknown> | undefined;
  /** Images in an uploaded archive. */
  images: readonly { config: { sha256: string } }[];
}

/** Signs a release on this machine. Returns undefined without --sign. */
export async function signatureOf(
  client: Client,
  now: Date,
  release: UnsignedRelease,
  options: SignOptions,
): Promise<SignedText | undefined> {
  const { sign, releaseVersion, minimumVersion = 0, signatureDays = SIGNATURE_DAYS_DEFAULT, forRobot = null, forLabel } = options;
  if (sign === undefined) {
    const alone = (["releaseVersion", "minimumVersion", "signatureDays", "forRobot", "forLabel"] as const).find(
      (name) => options[name] !== undefined,
    );
    if (alone !== undefined) throw usage(`--${alone.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)} needs --sign <key>`);
    return undefined;
  }
  const private_key = await readSigningKey(sign);
  const version = releaseVersion ?? Math.floor(now.getTime() / 1_000);
  if (minimumVersion > version) throw usage(`--minimum-version ${minimumVersion} is above the release's version ${version}`);
  const { tag, app = "main", kind, artifact_sha256, artifact_size, image = null, manifest, images } = release;
  return signRelease(
    {
      org_id: (await client.getOrg()).data.id,
      app,
      tag,
      kind,
      artifact_sha256,
      artifact_size,
      image,
      image_configs: images.length === 0 ? null : images.map(({ config }) => config.sha256),
      manifest_sha256: manifestDigest(manifest),
      version,
      minimum_version: minimumVersion,
      issued_at: now.toISOString(),
      expires_at: new Date(now.getTime() + signatureDays * DAY_MS).toISOString(),
      robots: forRobot,
      labels: forLabel === undefined ? null : Object.fromEntries(forLabel.map(pairOf)),
    },
    private_key,
  );
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw usage(`--for-label takes key=value, not ${text}`);
  return [text.slice(0, at), text.slice(at + 1)];
}
