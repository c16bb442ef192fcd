import type { Body } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { bytes, relative } from "./duration.ts";
import { labelsText } from "./labels.ts";
import { parseReleaseStatement, parseSignedText } from "@roamfleet/protocol/signatures";

/** Formats the signature: key, version, expiry; undefined if the release is unsigned. */
function signatureText(context: Context, signature: unknown): string | undefined {
  const signed = parseSignedText(signature);
  const statement = signed && parseReleaseStatement(signed.text);
  if (signed === undefined || statement === undefined) return undefined;
  const { version, minimum_version, expires_at, robots, labels } = statement;
  const parts = [`by key ${signed.key_id}`, `version ${version}`, `expires ${relative(expires_at, context.now())}`];
  if (minimum_version > 0) parts.push(`withdraws versions below ${minimum_version}`);
  if (robots !== null) parts.push(`for robots ${robots.join(", ")}`);
  if (labels !== null) parts.push(`for robots with ${labelsText(labels)}`);
  return parts.join(", ");
}

/** Formats the number and total size of an image's layers, which a robot with none of them downloads. */
const layersText = (images: NonNullable<Body<"getRelease">["data"]["images"]>): string =>
  images
    .map(({ platform, layers }) => {
      const whole = layers.reduce((sum, { size }) => sum + size, 0);
      return `${layers.length} of ${bytes(whole)}${platform === "" ? "" : ` for ${platform}`}`;
    })
    .join(", ");

export function showRelease(context: Context, release: Body<"getRelease">["data"]): void {
  const { out } = context;
  out.details([
    ["Id", release.id],
    ["Tag", release.tag],
    ["App", release.app],
    ["Kind", release.kind],
    ["Notes", release.notes ?? undefined],
    ["Artifact", out.status(release.artifact_state)],
    ["Image", release.image ?? undefined],
    ["Size", `${bytes(release.artifact_size)} (${release.artifact_size} bytes)`],
    ["SHA-256", release.artifact_sha256],
    ["Layers", release.images === undefined ? undefined : layersText(release.images)],
    ["Manifest", release.manifest == null ? undefined : JSON.stringify(release.manifest)],
    ["Signed", signatureText(context, release.signature)],
    [
      "Created",
      `${relative(release.created_at, context.now())}${release.created_by === null ? "" : ` by ${release.created_by.name ?? release.created_by.type}`}`,
    ],
  ]);
}
