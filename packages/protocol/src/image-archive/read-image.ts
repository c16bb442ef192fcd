import { ImageRefused } from "./image-refused.ts";
import { readDockerImage } from "./docker-archive.ts";
import { readOciImages } from "./oci-archive.ts";
import { ImageFiles, type ReadRange } from "./image-files.ts";
import type { Image } from "./image.ts";
import { scanTar } from "./tar-scan.ts";

/**
 * Reads the images of an archive written by `docker save`, `podman save`, `buildx` or `skopeo`: one, or one per platform. Returns undefined
 * if the bytes are not a tar archive. Throws ImageRefused for an archive with no image, with several, or with inconsistent content. Reads
 * the archive once as a stream without storing it.
 */
export async function readImages(read: ReadRange, size: number): Promise<Image[] | undefined> {
  const stream = await read();
  let contents: Awaited<ReturnType<typeof scanTar>>;
  try {
    contents = await scanTar(stream as AsyncIterable<Buffer>, size);
  } finally {
    stream.destroy();
  }
  if (contents === undefined) return undefined;
  const files = new ImageFiles(contents, read);
  files.checkNames();
  // Newer Docker versions write both formats; this one works for all versions and has one image.
  if (files.has("manifest.json")) return [await readDockerImage(files)];
  if (files.has("index.json")) return await readOciImages(files);
  throw new ImageRefused("it has neither a manifest.json (docker save) nor an index.json (OCI)");
}
