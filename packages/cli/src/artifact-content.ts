import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { createGunzip } from "node:zlib";
import type { Image } from "@robofleet/protocol/image-archive";
import { isBundleManifest, isGzip, tarNames } from "@robofleet/protocol/release-file";
import { usage } from "./failure.ts";

/** What a file turns out to be. */
export interface ArtifactContent {
  /** undefined: neither the one nor the other, as far as can be told. */
  kind: "container_image" | "app_bundle" | undefined;
  /** The images in the archive, one for each platform; [] for what is none, or is compressed. */
  images: readonly Image[];
  is_gzip: boolean;
}

/** Reads what a file is. Fails for the archive of an image that is broken: no robot could run it, and the server would refuse it. */
export async function lookInside(file: string, size: number): Promise<ArtifactContent> {
  const is_gzip = await startsAsGzip(file);
  if (is_gzip) return { kind: (await isBundle(file)) ? "app_bundle" : undefined, images: [], is_gzip };
  const { ImageRefused, readImages } = await import("@robofleet/protocol/image-archive");
  try {
    const images = await readImages(async (range) => createReadStream(file, { highWaterMark: 1024 * 1024, ...range }), size);
    return { kind: images === undefined ? undefined : "container_image", images: images ?? [], is_gzip };
  } catch (error) {
    if (!(error instanceof ImageRefused)) throw error;
    throw usage(`${file} is a tar archive, but no image that a robot could run: ${error.message}`, OTHER_KINDS);
  }
}

const OTHER_KINDS = "Make one with `docker save IMAGE -o FILE`. Is it something else? Say --kind app_bundle (a tar.gz) or --kind file.";

async function startsAsGzip(file: string): Promise<boolean> {
  await using handle = await open(file);
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
  return isGzip(buffer.subarray(0, bytesRead));
}

/** Whether a tar.gz has a `robofleet.json` at its root. What cannot be read as one has none. */
async function isBundle(file: string): Promise<boolean> {
  const source = createReadStream(file);
  const unpacked = source.pipe(createGunzip());
  source.on("error", (error) => unpacked.destroy(error));
  try {
    for await (const name of tarNames(unpacked as AsyncIterable<Buffer>)) if (isBundleManifest(name)) return true;
  } catch {
    // Broken or cut off: no bundle, as far as can be told.
  } finally {
    source.destroy();
    unpacked.destroy();
  }
  return false;
}
