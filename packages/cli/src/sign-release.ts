import type { Command } from "commander";
import type { Client } from "@roamfleet/sdk";
import { manifestDigest, type SignedText, signRelease } from "@roamfleet/protocol/signatures";
import { collect, wholeNumber } from "./command.ts";
import { usage } from "./failure.ts";
import { readSigningKey } from "./signing-key.ts";

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
      "Signed version, which increases with each release of the app (default: Unix time in seconds)",
      wholeNumber(0),
    )
    .option("--minimum-version <n>", "Signed: robots that ran this release reject lower versions", wholeNumber(0))
    .option("--signature-days <n>", "Signed: robots reject the release after this many days (default: 365)", wholeNumber(1))
    .option("--for-robot <id>", "Signed: only this robot accepts it (repeatable)", collect)
    .option("--for-label <key=value>", "Signed: only robots started with this label accept it (repeatable)", collect);
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

/** Signs a release on this machine; undefined if not requested. */
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
