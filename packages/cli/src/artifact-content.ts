import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { createGunzip } from "node:zlib";
import type { Image } from "@roamfleet/protocol/image-archive";
import { isBundleManifest, isGzip, tarNames } from "@roamfleet/protocol/release-file";
import { usage } from "./failure.ts";

/** The detected type of a file. */
export interface ArtifactContent {
  /** undefined: neither an app bundle nor an image archive. */
  kind: "container_image" | "app_bundle" | undefined;
  /** The images in the archive, one per platform; [] if it is not an image archive or is compressed. */
  images: readonly Image[];
  is_gzip: boolean;
}

/** Detects the type of a file. Throws a Failure for a broken image archive: no robot could run it, and the server would refuse it. */
export async function lookInside(file: string, size: number): Promise<ArtifactContent> {
  const is_gzip = await startsAsGzip(file);
  if (is_gzip) return { kind: (await isBundle(file)) ? "app_bundle" : undefined, images: [], is_gzip };
  const { ImageRefused, readImages } = await import("@roamfleet/protocol/image-archive");
  try {
    const images = await readImages(async (range) => createReadStream(file, { highWaterMark: 1024 * 1024, ...range }), size);
    return { kind: images === undefined ? undefined : "container_image", images: images ?? [], is_gzip };
  } catch (error) {
    if (!(error instanceof ImageRefused)) throw error;
    throw usage(`${file} is a tar archive, but not an image that a robot can run: ${error.message}`, OTHER_KINDS);
  }
}

const OTHER_KINDS = "Make one with `docker save IMAGE -o FILE`. For other content pass --kind app_bundle (a tar.gz) or --kind file.";

async function startsAsGzip(file: string): Promise<boolean> {
  await using handle = await open(file);
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
  return isGzip(buffer.subarray(0, bytesRead));
}

/** Returns whether a tar.gz has a `roamfleet.json` at its root; false if the archive cannot be read. */
async function isBundle(file: string): Promise<boolean> {
  const source = createReadStream(file);
  const unpacked = source.pipe(createGunzip());
  source.on("error", (error) => unpacked.destroy(error));
  try {
    for await (const name of tarNames(unpacked as AsyncIterable<Buffer>)) if (isBundleManifest(name)) return true;
  } catch {
    // A broken or truncated archive is not treated as a bundle.
  } finally {
    source.destroy();
    unpacked.destroy();
  }
  return false;
}
