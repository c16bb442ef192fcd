import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { createGunzip } from "node:zlib";
import type { Image } from "@roamfleet/protocol/image-archive";
import { HEAD_BYTES, isBundleManifest, isGzip, isOsImage, tarNames } from "@roamfleet/protocol/release-file";
import { usage } from "./failure.ts";

const MANIFEST_BYTES_MAX = 262_144;

/** Digest and size (in bytes) of a release's artifact. */
export interface Artifact {
  sha256: string;
  size: number;
}

/** Computes digest and size of a file in one pass. */
export async function digestFile(file: string, on_progress: (done: number, total: number) => void): Promise<Artifact> {
  const status = await stat(file);
  if (status.isDirectory()) throw usage(`${file} is a directory`, `Pack it first: tar -czf ${path.basename(file)}.tar.gz -C ${file} .`);
  if (!status.isFile()) throw usage(`${file} is not a regular file`);
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    size += chunk.length;
    on_progress(size, status.size);
  }
  return { sha256: hash.digest("hex"), size };
}

/** Parses a manifest file, which contains one object: as YAML if the extension is .yaml or .yml, otherwise as JSON. */
export async function readManifest(file: string): Promise<Record<string, unknown>> {
  const content = await readFile(file);
  if (content.length > MANIFEST_BYTES_MAX)
    throw usage(`${file} is too large for a manifest: ${content.length} bytes (maximum ${MANIFEST_BYTES_MAX})`);
  const is_yaml = /\.ya?ml$/i.test(file);
  let value: unknown;
  try {
    value = is_yaml ? (await import("yaml")).parse(content.toString()) : JSON.parse(content.toString());
  } catch (error) {
    throw usage(`${file} is not valid ${is_yaml ? "YAML" : "JSON"}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw usage(`${file} does not contain an object`);
  return value as Record<string, unknown>;
}

/** The detected type of a file. */
export interface ArtifactContent {
  /** The release kind that matches the file; undefined if none matches. */
  kind: "container_image" | "app_bundle" | "os_image" | undefined;
  /** The images in the archive, one per platform; [] if it is not an image archive or is compressed. */
  images: readonly Image[];
  is_gzip: boolean;
}

/** Detects the type of a file. Throws a Failure for a broken image archive: no robot could run it, and the server would refuse it. */
export async function detectContent(file: string, size: number): Promise<ArtifactContent> {
  const head = await headOf(file);
  const is_gzip = isGzip(head);
  if (is_gzip) return { kind: (await isBundle(file)) ? "app_bundle" : undefined, images: [], is_gzip };
  if (isOsImage(head)) return { kind: "os_image", images: [], is_gzip };
  const { ImageRefused, readImages } = await import("@roamfleet/protocol/image-archive");
  try {
    const images = await readImages(async (range) => createReadStream(file, { highWaterMark: 1024 * 1024, ...range }), size);
    return { kind: images === undefined ? undefined : "container_image", images: images ?? [], is_gzip };
  } catch (error) {
    if (!(error instanceof ImageRefused)) throw error;
    throw usage(`${file} is a tar archive, but not an image that a robot can run: ${error.message}`, OTHER_KINDS);
  }
}

const OTHER_KINDS =
  "Create one with `docker save IMAGE -o FILE`. For other content pass --kind app_bundle (a tar.gz), --kind os_image (a RAUC bundle) or --kind file.";

async function headOf(file: string): Promise<Uint8Array> {
  await using handle = await open(file);
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
  return buffer.subarray(0, bytesRead);
}

/** Returns whether a tar.gz has a `roamfleet.json` at its root; false if the archive cannot be read. */
async function isBundle(file: string): Promise<boolean> {
  const source = createReadStream(file);
  const unpacked = source.pipe(createGunzip());
  source.on("error", (error) => unpacked.destroy(error));
  try {
    for await (const name of tarNames(unpacked as AsyncIterable<Buffer>)) if (isBundleManifest(name)) return true;
  } catch {
    // A broken or truncated archive does not count as a bundle.
  } finally {
    source.destroy();
    unpacked.destroy();
  }
  return false;
}
