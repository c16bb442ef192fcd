import type { Readable } from "node:stream";
import type { Plane } from "../../context.ts";
import { BlobError, type Staged } from "../../engines/blobs/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import { badRequest, conflict, httpError, notFound, printable } from "../../kernel/fault.ts";
import { artifactStored } from "../deployments/index.ts";
import { countBytes, findRelease, lockArtifact, lockRelease, putArtifactRow, type ReleaseRow, setStored } from "./store.ts";

export const blobKey = (org_id: string, sha256: string): string => `${org_id}/${sha256}`;

export interface UploadRequest {
  caller: Caller;
  release_id: string;
  headers: Record<string, string | string[] | undefined>;
  stream: Readable;
  /** Tells a waiting client to send. */
  allowBody: () => void;
}

/** Bytes of uploads under way on this node: room that is not taken yet and will be. */
export class Uploads {
  readonly #plane: Plane;
  readonly #reserved = new Map<symbol, { org_id: string; bytes: number }>();

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /**
   * Takes the artifact of a release: whole, in the announced size and digest, or nothing is kept. Answers at once when it
   * is stored already. Throws 413 before the first byte when there is no room, 400 for other bytes.
   */
  async receive({ caller: { org_id }, release_id, headers, stream, allowBody }: UploadRequest): Promise<ReleaseRow> {
    const release = await findRelease(this.#plane.db, org_id, release_id);
    if (release === undefined) throw notFound("release", release_id);
    if (release.artifact_state === "external")
      throw conflict(`release ${printable(release.tag)} is the image ${release.image}: it takes no upload`);
    const stored = await this.#useStored(org_id, release);
    if (stored !== undefined) return stored;
    const length = headers["content-length"];
    if (length !== undefined && Number(length) !== release.artifact_size) {
      throw badRequest(
        `the body has ${String(length)} bytes; artifact_size of release ${printable(release.tag)} is ${release.artifact_size}`,
      );
    }
    const reservation = Symbol();
    this.#reserved.set(reservation, { org_id, bytes: release.artifact_size });
    try {
      await this.#requireRoom(org_id, release.artifact_size);
      allowBody();
      return await this.#take(org_id, release, stream);
    } catch (error) {
      throw toFault(error, release);
    } finally {
      this.#reserved.delete(reservation);
    }
  }

  /** The bytes are there already, for this release or for another one of the org. */
  async #useStored(org_id: string, { id, artifact_sha256, artifact_size }: ReleaseRow): Promise<ReleaseRow | undefined> {
    const { db, blobs, clock } = this.#plane;
    return await db.transaction(async (tx) => {
      const release = await lockRelease(tx, org_id, id);
      if (release === undefined) throw notFound("release", id);
      const artifact = await lockArtifact(tx, org_id, artifact_sha256);
      if (artifact?.size !== artifact_size) return undefined;
      // The row may tell of a blob that somebody removed by hand: then it is taken again.
      if ((await blobs.stat(blobKey(org_id, artifact_sha256)))?.size !== artifact_size) return undefined;
      if (release.artifact_state === "stored") return release;
      await putArtifactRow(tx, org_id, artifact_sha256, artifact_size, clock.now());
      await artifactStored(tx, this.#plane, org_id, id);
      return await setStored(tx, org_id, id, clock.now());
    });
  }

  async #requireRoom(org_id: string, bytes: number): Promise<void> {
    const { db, blobs, settings } = this.#plane;
    const { artifact_bytes_max, free_disk_bytes_min } = settings.limits;
    const [stored, free] = await Promise.all([countBytes(db, org_id), blobs.freeBytes()]);
    const under_way = [...this.#reserved.values()];
    const of_org = under_way.filter((other) => other.org_id === org_id);
    if (stored + sum(of_org) > artifact_bytes_max) {
      throw httpError(
        413,
        `${bytes} bytes more would exceed the ${artifact_bytes_max} bytes that an org's artifacts may take; ${stored} are taken`,
      );
    }
    if (free - sum(under_way) < free_disk_bytes_min) throw httpError(413, `the server has no room for ${bytes} bytes more`);
  }

  async #take(org_id: string, { id, artifact_sha256: sha256, artifact_size: size }: ReleaseRow, stream: Readable): Promise<ReleaseRow> {
    const staged = await this.#plane.blobs.receive(stream, { max_bytes: size, expect: { size, sha256 } });
    try {
      return await this.#keep(org_id, id, staged);
    } finally {
      await staged.discard();
    }
  }

  /** The blob gets its name while its row is held, so that nobody removes it in between. */
  #keep(org_id: string, id: string, staged: Staged): Promise<ReleaseRow> {
    const { db, clock } = this.#plane;
    let is_placed = false;
    return db.transaction(async (tx) => {
      if ((await lockRelease(tx, org_id, id)) === undefined) throw notFound("release", id);
      await putArtifactRow(tx, org_id, staged.sha256, staged.size, clock.now());
      if (!is_placed) await staged.commit(blobKey(org_id, staged.sha256));
      is_placed = true;
      await artifactStored(tx, this.#plane, org_id, id);
      return await setStored(tx, org_id, id, clock.now());
    });
  }
}

const sum = (reservations: readonly { bytes: number }[]): number => reservations.reduce((total, { bytes }) => total + bytes, 0);

/** What the blob store refused, as the client is told it. Nothing was kept. */
function toFault(error: unknown, { tag, artifact_size }: ReleaseRow): unknown {
  if (!(error instanceof BlobError)) return error;
  const of = `the artifact of release ${printable(tag)}`;
  switch (error.code) {
    case "mismatch":
      return badRequest(`this is not ${of}: ${error.message}. Nothing was kept`);
    case "too_large":
      return badRequest(`this is not ${of}: it has more than the ${artifact_size} bytes announced. Nothing was kept`);
    case "interrupted":
      return badRequest("the upload broke off. Nothing was kept");
    case "no_space":
      return httpError(413, `the server has no room for ${of}`);
    default:
      return error;
  }
}
