import { Readable } from "node:stream";
import type { Plane } from "../../context.ts";
import { BlobError, type BlobRange, S3Error } from "../../engines/blobs/index.ts";
import { Fault, httpError, notFound } from "../../kernel/fault.ts";
import { Answer } from "../../kernel/serve.ts";
import { readRange } from "../../kernel/byte-range.ts";
import { blobKey } from "./upload.ts";

interface DownloadRequest {
  org_id: string;
  sha256: string;
  size: number;
  /**
   * The artifact that contains the bytes, and their offset in it, if they are only a part of an artifact. Undefined if they are a whole
   * artifact.
   */
  within?: { artifact_sha256: string; start: number };
  headers: Record<string, string | string[] | undefined>;
}

const asText = (header: string | string[] | undefined): string | undefined => (typeof header === "string" ? header : undefined);

type Place = Pick<DownloadRequest, "org_id" | "sha256" | "size"> & { within: DownloadRequest["within"] };

function open(blobs: Plane["blobs"], { org_id, sha256, size, within }: Place, range: BlobRange | "whole"): Promise<{ stream: Readable }> {
  if (within === undefined) return blobs.read(blobKey(org_id, sha256), range === "whole" ? undefined : range);
  if (size === 0) return Promise.resolve({ stream: Readable.from([]) });
  const { start, end } = range === "whole" ? { start: 0, end: size - 1 } : range;
  return blobs.read(blobKey(org_id, within.artifact_sha256), { start: within.start + start, end: within.start + end });
}

/**
 * Returns the bytes with this digest, or the requested range of them. The ETag is the digest, because the bytes of a digest never change.
 */
export async function answerArtifact(
  { blobs }: Pick<Plane, "blobs">,
  { org_id, sha256, size, within, headers }: DownloadRequest,
): Promise<Answer<never>> {
  const etag = `"${sha256}"`;
  const condition = asText(headers["if-range"]);
  const range = condition === undefined || condition === etag ? readRange(asText(headers.range), size) : "whole";
  if (range === "unsatisfiable")
    throw httpError(416, `the range is outside the artifact, which has ${size} bytes`, { "content-range": `bytes */${size}`, etag });
  let stream: Readable;
  try {
    ({ stream } = await open(blobs, { org_id, sha256, size, within }, range));
  } catch (error) {
    if (error instanceof BlobError && error.code === "not_found") throw notFound("artifact", sha256);
    throw error;
  }
  const common = { etag, "accept-ranges": "bytes", "content-type": "application/octet-stream", "content-disposition": "attachment" };
  if (range === "whole") return new Answer<never>(200, stream, { ...common, "content-length": String(size) });
  const { start, end } = range;
  return new Answer<never>(206, stream, {
    ...common,
    "content-length": String(end - start + 1),
    "content-range": `bytes ${start}-${end}/${size}`,
  });
}

const RETRY_SECONDS = "2";

/** Runs work that needs the artifact store. If the store does not respond, throws 503, so that the client retries. */
export async function mapStoreOutage<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // An error that persists until an operator fixes it is reported as a server error. The log contains its cause.
    if (!(error instanceof S3Error) || error.stays) throw error;
    throw new Fault("http_error", "the artifact store does not respond; try again. Acknowledged bytes are kept", {
      status: 503,
      headers: { "retry-after": RETRY_SECONDS },
      detail: { store: error.message },
    });
  }
}
