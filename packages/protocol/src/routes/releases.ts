import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { withoutDefaults } from "./same-body.ts";
import {
  Actor,
  AppName,
  Count,
  DataOf,
  Id,
  IdParams,
  Json,
  ListOf,
  Maybe,
  named,
  Nullable,
  OneOf,
  type Of,
  page,
  Sha256,
  Shape,
  stamps,
  Tag,
} from "./shapes.ts";
import { SignedText } from "./signing.ts";

const ImagePart = { sha256: Type.String(), size: Count };
export const ReleaseImage = named(
  "ReleaseImage",
  Shape({
    platform: Type.String({ description: "os/architecture; empty if the archive does not contain it" }),
    config: Shape(ImagePart),
    layers: Type.Array(Shape({ ...ImagePart, diff_id: Type.String() }), {
      description: "from lowest to topmost; a robot downloads only missing layers",
    }),
  }),
);

export const Release = named(
  "Release",
  Shape({
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
  }),
);
export type Release = Of<typeof Release>;

/** [host[:port]/]path[:tag]@sha256:digest; the part before the digest names the registry, the digest identifies the image. */
const IMAGE_PATTERN =
  "^(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}$";

/** 10 TiB: more than any robot's disk, and below the limit of exact JSON numbers. */
const ARTIFACT_BYTES_MAX = 10 * 1024 ** 4;

export const releaseRoutes = {
  listReleases: defineRoute("listReleases", {
    summary: "List releases",
    tag: "Releases",
    access: "viewer",
    query: Shape({
      ...page,
      tag: Maybe(Type.String({ maxLength: 200 })),
      app: Maybe(Type.String({ maxLength: 63 })),
      kind: Maybe(Type.String({ maxLength: 200 })),
      q: Maybe(Type.String({ maxLength: 200 })),
    }),
    responses: { 200: ListOf(Release) },
  }),
  createRelease: defineRoute("createRelease", {
    summary: "Create a release; upload its artifact next. The same content with the same tag returns the existing release",
    tag: "Releases",
    access: "operator",
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
    idempotency: "accepted",
    responses: { 200: DataOf(Release), 201: DataOf(Release) },
    errors: [409],
  }),
  getRelease: defineRoute("getRelease", {
    summary: "Get a release",
    tag: "Releases",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(Release) },
  }),
  deleteRelease: defineRoute("deleteRelease", {
    summary: "Delete an unused release",
    tag: "Releases",
    access: "admin",
    params: IdParams,
    responses: { 200: DataOf(Release) },
    errors: [409],
  }),
  putReleaseArtifact: defineRoute("putReleaseArtifact", {
    summary: "Upload the artifact in one request; size and digest must match the release",
    tag: "Releases",
    access: "operator",
    params: IdParams,
    consumes: "application/octet-stream",
    responses: { 200: DataOf(Release) },
    errors: [409, 411, 413],
  }),
  getReleaseArtifact: defineRoute("getReleaseArtifact", {
    summary: "Download the artifact or a range of it",
    tag: "Releases",
    access: "operator",
    params: IdParams,
    produces: "application/octet-stream",
    // HEAD, with which a client queries the offset of its upload, completes an upload whose last byte arrived before a crash.
    audit: "on_change_of_state",
    responses: { 200: null, 206: null },
    errors: [412, 416, 423],
  }),
  startUpload: defineRoute("startUpload", {
    summary:
      "Start a resumable upload of the artifact (tus 1.0: Tus-Resumable, Upload-Length); continue with HEAD and PATCH on the same path. A repeated request returns the existing upload",
    tag: "Releases",
    access: "operator",
    params: IdParams,
    idempotency: "accepted",
    audit: "on_change_of_state",
    responses: { 201: DataOf(Release) },
    errors: [409, 412, 413, 423],
  }),
  continueUpload: defineRoute("continueUpload", {
    summary: "Append data at Upload-Offset (tus 1.0); after the last byte, size and digest must match the release",
    tag: "Releases",
    access: "operator",
    params: IdParams,
    consumes: "application/offset+octet-stream",
    produces: "application/offset+octet-stream",
    audit: "on_change_of_state",
    responses: { 204: null },
    errors: [409, 412, 413, 423],
  }),
  endUpload: defineRoute("endUpload", {
    summary: "Abort a resumable upload (tus 1.0) and delete its data",
    tag: "Releases",
    access: "operator",
    params: IdParams,
    produces: "application/offset+octet-stream",
    responses: { 204: null },
    errors: [412, 423],
  }),
};
