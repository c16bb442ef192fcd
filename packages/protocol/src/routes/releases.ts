import { Type } from "typebox";
import { SIGNED_TEXT_CHARACTERS_MAX } from "../signatures/signed-text.ts";
import {
  Actor,
  AppName,
  Count,
  DataOf,
  defineRoutes,
  Entity,
  Id,
  Json,
  ListOf,
  type Of,
  page,
  Sha256,
  stamps,
  Tag,
  Time,
  withoutDefaults,
} from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

const KEY_ID_CHARACTERS_MAX = 64;
const SIGNATURE_CHARACTERS_MAX = 100;

/** A statement and the Ed25519 signature over the UTF-8 bytes of its text. */
export const SignedText = Entity("SignedText", {
  key_id: Type.String({ maxLength: KEY_ID_CHARACTERS_MAX, description: "First 32 hex digits of the SHA-256 of the raw public key" }),
  text: Type.String({ maxLength: SIGNED_TEXT_CHARACTERS_MAX, description: "Its purpose, a line feed, and canonical JSON (RFC 8785)" }),
  value: Type.String({ maxLength: SIGNATURE_CHARACTERS_MAX, description: "base64 of the 64 bytes of the signature" }),
});

export const SigningKeys = Entity("SigningKeys", {
  org_id: Id,
  serial: Type.Integer({ minimum: 0, description: "Serial of the latest statement; 0: the org never had a key" }),
  require_signature: Type.Boolean(),
  keys: Type.Array(
    Shape({
      id: Id,
      name: Type.String(),
      public_key: Type.String({ description: "base64 of the 32 raw Ed25519 bytes" }),
      added_at: Time,
      revoked_at: Nullable(Time),
    }),
  ),
  statements: Type.Array(SignedText, {
    description: "Signed statements that define the keys, oldest first; the signer of the next statement verifies the keys with them",
  }),
});
export type SigningKeys = Of<typeof SigningKeys>;

export const signingRoutes = defineRoutes("Signing", {
  getSigningKeys: {
    summary: "Get the public keys that the org's robots trust for releases, including revoked ones, and whether a signature is required",
    responses: { 200: DataOf(SigningKeys) },
  },
  changeSigningKeys: {
    summary: "Change the signing keys, or whether a signature is required, with a statement signed by a current key",
    body: Shape({
      statement: SignedText,
      start_over: Maybe(
        Type.Boolean({
          description:
            "Accept a statement not signed by a current key, because all keys are lost. Robots that trust the lost keys refuse it until the new key is set on each machine: rf-agent trust-key",
        }),
      ),
    }),
    responses: { 200: DataOf(SigningKeys) },
    errors: [409],
  },
});

const ImagePart = { sha256: Type.String(), size: Count };
export const ReleaseImage = Entity("ReleaseImage", {
  platform: Type.String({ description: "os/architecture; empty if the archive does not contain it" }),
  config: Shape(ImagePart),
  layers: Type.Array(Shape({ ...ImagePart, diff_id: Type.String() }), {
    description: "from lowest to topmost; a robot downloads only missing layers",
  }),
});

export const Release = Entity("Release", {
  id: Id,
  tag: Type.String(),
  app: Type.String(),
  notes: Nullable(Type.String()),
  kind: Type.String(),
  artifact_sha256: Type.String(),
  artifact_size: Count,
  artifact_state: OneOf(["awaiting_upload", "stored", "external"]),
  image: Nullable(Type.String()),
  manifest: Json,
  signature: Json,
  created_by: Nullable(Actor),
  images: Maybe(
    Type.Array(ReleaseImage, {
      description: "Images of an uploaded archive, one per platform; only in responses with a single release",
    }),
  ),
  ...stamps,
});
export type Release = Of<typeof Release>;

/**
 * Matches an image reference: [host[:port]/]path[:tag]@sha256:digest. The part before the digest names the registry, and the digest
 * identifies the image.
 */
const IMAGE_PATTERN =
  "^(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}$";

/** Maximum bytes of an artifact: 10 TiB. That is more than any robot's disk, and JSON can represent it exactly. */
const ARTIFACT_BYTES_MAX = 10 * 1024 ** 4;

export const releaseRoutes = defineRoutes("Releases", {
  listReleases: {
    summary: "List releases",
    query: Shape({
      ...page,
      tag: Maybe(Type.String({ maxLength: 200 })),
      app: Maybe(Type.String({ maxLength: 63 })),
      kind: Maybe(Type.String({ maxLength: 200 })),
      q: Maybe(Type.String({ maxLength: 200 })),
    }),
    responses: { 200: ListOf(Release) },
  },
  createRelease: {
    summary: "Create a release; upload its artifact next. The same content with the same tag returns the existing release",
    body: Shape({
      tag: Tag,
      artifact_sha256: Sha256,
      artifact_size: Type.Integer({ minimum: 0, maximum: ARTIFACT_BYTES_MAX }),
      notes: Maybe(Type.String({ maxLength: 20_000 })),
      kind: Maybe(Type.String({ pattern: "^[a-z0-9][a-z0-9._-]{0,62}$", default: "container_image" })),
      app: Maybe(AppName),
      manifest: Maybe(Type.Record(Type.String(), Json)),
      signature: Maybe(SignedText),
      image: Maybe(
        Type.String({
          minLength: 1,
          maxLength: 500,
          pattern: IMAGE_PATTERN,
          description: "registry/name@sha256:… (by digest: 64 lower-case hexadecimal digits), instead of a file",
        }),
      ),
    }),
    aliases: { semver: "tag" },
    sameBody: withoutDefaults({ app: "main" }),
    responses: { 200: DataOf(Release), 201: DataOf(Release) },
    errors: [409],
  },
  getRelease: {
    summary: "Get a release",
    responses: { 200: DataOf(Release) },
  },
  deleteRelease: {
    summary: "Delete an unused release",
    responses: { 200: DataOf(Release) },
    errors: [409],
  },
  putReleaseArtifact: {
    summary: "Upload the artifact in one request; size and digest must match the release",
    consumes: "application/octet-stream",
    responses: { 200: DataOf(Release) },
    errors: [409, 411, 413],
  },
  getReleaseArtifact: {
    summary: "Download the artifact or a range of it",
    produces: "application/octet-stream",
    // A client queries the offset of its upload with a HEAD request. This request changes state if it completes an upload whose last byte
    // arrived before a crash.
    audit: "on_change_of_state",
    responses: { 200: null, 206: null },
    errors: [412, 416, 423],
  },
  startUpload: {
    summary:
      "Start a resumable upload of the artifact (tus 1.0: Tus-Resumable, Upload-Length); continue with HEAD and PATCH on the same path. A repeated request returns the existing upload",
    audit: "on_change_of_state",
    responses: { 201: DataOf(Release) },
    errors: [409, 412, 413, 423],
  },
  continueUpload: {
    summary: "Append data at Upload-Offset (tus 1.0); after the last byte, size and digest must match the release",
    consumes: "application/offset+octet-stream",
    produces: "application/offset+octet-stream",
    audit: "on_change_of_state",
    responses: { 204: null },
    errors: [409, 412, 413, 423],
  },
  endUpload: {
    summary: "Abort a resumable upload (tus 1.0) and delete its data",
    produces: "application/offset+octet-stream",
    responses: { 204: null },
    errors: [412, 423],
  },
});
