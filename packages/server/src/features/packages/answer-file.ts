import type { IncomingHttpHeaders } from "node:http";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import path from "node:path";
import { readRange } from "../../kernel/byte-range.ts";
import { httpError, notFound } from "../../kernel/fault.ts";
import { Answer } from "../../kernel/serve.ts";
import { stampOf } from "./directory.ts";

const CONTENT_TYPES: Record<string, string> = {
  ".deb": "application/vnd.debian.binary-package",
  ".gpg": "application/octet-stream",
  ".gz": "application/gzip",
  ".json": "application/json; charset=utf-8",
  ".pem": "application/x-pem-file",
  ".tgz": "application/gzip",
  ".xz": "application/x-xz",
};
/** Names without an extension in a directory of packages, such as SHA256SUMS and InRelease, are text. */
const contentType = (file: string): string =>
  CONTENT_TYPES[path.extname(file)] ?? (path.extname(file) === "" ? "text/plain; charset=utf-8" : "application/octet-stream");

/**
 * Maximum concurrent downloads of packages from one server. Anyone may download packages, so downloads must not use up the server's file
 * descriptors.
 */
export const DOWNLOADS_MAX = 200;
let downloads = 0;

/**
 * Returns a file with its ETag, or the requested range of it. Throws 404 if the file is gone, 416 for a range outside the file and 503 if
 * DOWNLOADS_MAX downloads are running.
 */
export async function answerFile(url: string, file: string, headers: IncomingHttpHeaders): Promise<Answer<never>> {
  if (downloads >= DOWNLOADS_MAX)
    throw httpError(503, "the server is sending packages to too many robots; try again", { "retry-after": "10" });
  const release = (): void => void (downloads -= 1);
  downloads += 1;
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => undefined);
  try {
    if (handle === undefined) throw notFound("path", url);
    const seen = await handle.stat({ bigint: true });
    if (!seen.isFile()) throw notFound("path", url);
    const { size, mtime } = seen;
    const etag = `"${stampOf(seen)}"`;
    // A file may change under the same name, so every use is revalidated, usually with a 304.
    const common = { etag, "cache-control": "no-cache", "accept-ranges": "bytes", "last-modified": mtime.toUTCString() };
    if (matches(headers["if-none-match"], etag)) {
      await handle.close();
      release();
      return new Answer<never>(304, "", common);
    }
    const bytes = Number(size);
    const if_range = headers["if-range"];
    const range = if_range === undefined || if_range === etag ? readRange(headers.range, bytes) : "whole";
    if (range === "unsatisfiable")
      throw httpError(416, `the range is outside the file, which has ${bytes} bytes`, { "content-range": `bytes */${bytes}` });
    const { start, end } = range === "whole" ? { start: 0, end: bytes - 1 } : range;
    // The stream closes the file.
    const stream = handle.createReadStream(bytes === 0 ? {} : { start, end });
    stream.once("close", release);
    const sent = { ...common, "content-type": contentType(file), "content-length": String(end - start + 1) };
    if (range === "whole") return new Answer<never>(200, stream, sent);
    return new Answer<never>(206, stream, { ...sent, "content-range": `bytes ${start}-${end}/${bytes}` });
  } catch (error) {
    release();
    await handle?.close();
    throw error;
  }
}

const matches = (header: string | undefined, etag: string): boolean =>
  header !== undefined && (header.trim() === "*" || header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag));
