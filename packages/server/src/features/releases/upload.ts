import type { Readable } from "node:stream";
import { type Image, ImageRefused, readImages } from "@roamfleet/protocol/image-archive";
import type { Plane } from "../../context.ts";
import { BlobError, type BlobRange, type Completed } from "../../engines/blobs/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, diskFull, found, notFound, printable } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { artifactStored } from "../deployments/index.ts";
import type { UploadAdmission } from "./upload-admission.ts";
import {
  deleteArtifactRow,
  findRelease,
  insertImages,
  isImage,
  lockArtifact,
  lockRelease,
  putArtifactRow,
  type ReleaseRow,
  setStored,
} from "./store.ts";
import { deleteUpload } from "./store-uploads.ts";

export const blobKey = (org_id: string, sha256: string): string => `${org_id}/${sha256}`;

const IMAGE_KIND = "container_image";

interface UploadRequest {
  caller: Caller;
  release_id: string;
  headers: Record<string, string | string[] | undefined>;
  stream: Readable;
  /** Sends the response 100 Continue, if the client waits for that response before it sends the body (`Expect: 100-continue`). */
  allowBody: () => void;
}

/**
 * Receives the artifact of a release in one request. If the size or digest differs from the release's, throws 400 and keeps nothing. Throws
 * 413 before the first byte if there is no space. Returns immediately if the artifact is already stored.
 */
export async function receiveArtifact(plane: Plane, admission: UploadAdmission, request: UploadRequest): Promise<ReleaseRow> {
  const { release_id, headers, stream, allowBody } = request;
  const { org_id } = request.caller;
  const db = plane.db.forOrg(org_id);
  const release = await requireUploadable(db, org_id, release_id);
  const stored = await useStored(plane, db, org_id, release);
  if (stored !== undefined) return stored;
  const { artifact_size: size, artifact_sha256: sha256 } = release;
  const length = headers["content-length"];
  if (length !== undefined && Number(length) !== size) {
    throw badRequest(`the body has ${String(length)} bytes; artifact_size of release ${printable(release.tag)} is ${size}`);
  }
  try {
    return await admission.with(org_id, size, async (taken, disk) => {
      allowBody();
      const { signal } = disk;
      const on_bytes = (bytes: number): void => disk.onBytes(bytes);
      const staged = await plane.blobs
        .receive(stream, { max_bytes: size, expect: { size, sha256 }, signal, on_bytes })
        .catch((error: unknown) => {
          disk.require("nothing was kept");
          throw error;
        });
      try {
        const images = await imagesIn(release, (range) => staged.read(range));
        await staged.prepare(blobKey(org_id, sha256));
        return await keepArtifact(plane, db, org_id, { release, images, commit: (key) => staged.commit(key) }, taken);
      } finally {
        await staged.discard();
      }
    });
  } catch (error) {
    throw toFault(error, release);
  }
}

/** Returns a release whose artifact can be uploaded. Throws 409 if the release is an external image. */
export async function requireUploadable(db: Db, org_id: string, release_id: string): Promise<ReleaseRow> {
  const release = found(await findRelease(db, org_id, release_id), "release", release_id);
  if (release.artifact_state === "external")
    throw conflict(`release ${printable(release.tag)} is the image ${release.image}: it has no artifact to upload`);
  return release;
}

/**
 * Returns the images in the archive of an image release, and none for other kinds of releases. Throws ImageRefused if the archive is
 * invalid.
 */
export const imagesIn = async (
  { kind, artifact_size }: ReleaseRow,
  read: (range?: BlobRange) => Readable | Promise<Readable>,
): Promise<Image[]> => (kind === IMAGE_KIND ? ((await readImages(async (range) => await read(range), artifact_size)) ?? []) : []);

/**
 * If the org already stored the release's artifact, by an earlier upload for this or another release, marks the release as stored and
 * returns it. Otherwise returns undefined. Throws 400 if the release is an image, but the stored artifact is not a valid image.
 */
export async function useStored(plane: Plane, db: Db, org_id: string, release: ReleaseRow): Promise<ReleaseRow | undefined> {
  const { kind, artifact_state, artifact_sha256, artifact_size } = release;
  const key = blobKey(org_id, artifact_sha256);
  let images: Image[] = [];
  if (kind === IMAGE_KIND && artifact_state !== "stored" && !(await isImage(db, org_id, artifact_sha256))) {
    if ((await plane.blobs.stat(key))?.size !== artifact_size) return undefined;
    try {
      images = await imagesIn(release, async (range) => (await plane.blobs.read(key, range)).stream);
    } catch (error) {
      if (error instanceof BlobError && error.code === "not_found") return undefined;
      throw toFault(error, release);
    }
  }
  return await takeStored(plane, db, org_id, { release, images });
}

const takeStored = (
  plane: Plane,
  db: Db,
  org_id: string,
  { release: { id, artifact_sha256, artifact_size }, images }: Checked,
): Promise<ReleaseRow | undefined> =>
  db.transaction(async (tx) => {
    const release = found(await lockRelease(tx, org_id, id), "release", id);
    const artifact = await lockArtifact(tx, org_id, artifact_sha256);
    if (artifact !== undefined && artifact.size !== artifact_size) return undefined;
    const isThere = async () => (await plane.blobs.stat(blobKey(org_id, artifact_sha256)))?.size === artifact_size;
    // The blob of a row may be missing, for example because an administrator deleted it. Then the client uploads it again.
    if (!(await isThere())) return undefined;
    if (release.artifact_state === "stored") return release;
    await putArtifactRow(tx, org_id, artifact_sha256, artifact_size, plane.clock.now());
    // A blob without a row is left over from a server that stopped before the commit. It may have been removed before this transaction
    // inserted and locked the row, so check again that it exists.
    if (artifact === undefined && !(await isThere())) {
      await deleteArtifactRow(tx, { org_id, sha256: artifact_sha256 });
      return undefined;
    }
    await insertImages(tx, org_id, artifact_sha256, images);
    return await markStored(plane, tx, org_id, id);
  });

/** A release and the images found in its artifact. */
interface Checked {
  release: ReleaseRow;
  images: readonly Image[];
}

/** Moves the artifact to its final name and marks the release as stored. Meanwhile, locks the artifact's row to prevent its removal. */
export const keepArtifact = (
  plane: Plane,
  db: Db,
  org_id: string,
  { release, images, commit }: Checked & Pick<Completed, "commit">,
  taken: (tx: Db) => Promise<void> = async () => {},
): Promise<ReleaseRow> =>
  db.transaction(async (tx) => {
    const { id, artifact_sha256: sha256, artifact_size: size } = release;
    if ((await lockRelease(tx, org_id, id)) === undefined) throw notFound("release", id);
    await putArtifactRow(tx, org_id, sha256, size, plane.clock.now());
    await insertImages(tx, org_id, sha256, images);
    await commit(blobKey(org_id, sha256));
    const stored = await markStored(plane, tx, org_id, id);
    await taken(tx);
    return stored;
  });

async function markStored(plane: Plane, tx: Db, org_id: string, id: string): Promise<ReleaseRow> {
  await artifactStored(tx, plane, org_id, id);
  await deleteUpload(tx, org_id, id);
  announce(tx, plane, org_id, { kind: "release", id, change: "status", status: "stored" });
  return await setStored(tx, org_id, id, plane.clock.now());
}

/** Converts an error of the blob store to an error for the client. Returns other errors unchanged. */
export function toFault(error: unknown, { tag, artifact_size }: ReleaseRow): unknown {
  if (error instanceof ImageRefused)
    return badRequest(`the artifact of release ${printable(tag)} is not a valid container image: ${error.message}. Nothing was kept`);
  if (!(error instanceof BlobError)) return error;
  const of = `the artifact of release ${printable(tag)}`;
  switch (error.code) {
    case "mismatch":
      return badRequest(`the uploaded data is not ${of}: ${error.message}. Nothing was kept`);
    case "too_large":
      return badRequest(`the uploaded data is not ${of}: received more than the expected ${artifact_size} bytes. Nothing was kept`);
    case "interrupted":
      return badRequest("the upload was interrupted. Nothing was kept");
    case "no_space":
      return diskFull(`there is no space for ${of}`);
    default:
      return error;
  }
}
