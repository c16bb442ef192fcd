import { ImageRefused } from "./image-refused.ts";
import { readDockerImage } from "./docker-archive.ts";
import { readOciImages } from "./oci-archive.ts";
import { ImageFiles, type ReadRange } from "./image-files.ts";
import type { Image } from "./image.ts";
import { scanTar } from "./tar-scan.ts";

/**
 * The images in an archive as `docker save`, `podman save`, `buildx` or `skopeo` write it: one, or one for each platform.
 * undefined: the bytes are no tar archive at all. Throws ImageRefused for an archive that holds no image, several, or one
 * that is not what it says. Reads it once and keeps none of it.
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
  // Newer Dockers write both forms: this one is the same for all, and names one image.
  if (files.has("manifest.json")) return [await readDockerImage(files)];
  if (files.has("index.json")) return await readOciImages(files);
  throw new ImageRefused("it has neither a manifest.json (docker save) nor an index.json (OCI)");
}
