import { fields, type Fields, type Image, ImageFiles, list, type ReadRange } from "./image-files.ts";
import { ImageRefused, scanTar, type TarFile } from "./tar-scan.ts";

export type { Image, ImageLayer, ImagePart } from "./image-files.ts";
export { ImageRefused } from "./tar-scan.ts";

/**
 * Reads the images of an archive written by `docker save`, `podman save`, `buildx` or `skopeo`. An archive contains one image, or one per
 * platform. Returns undefined if the bytes are not a tar archive. Throws ImageRefused if the archive has no image, several images for one
 * platform, or inconsistent content. Reads the archive once as a stream without storing it.
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
  // Newer Docker versions write both files. Read manifest.json first: all versions write it, and it lists one image.
  if (files.has("manifest.json")) return [await readDockerImage(files)];
  if (files.has("index.json")) return await readOciImages(files);
  throw new ImageRefused("it has neither a manifest.json (docker save) nor an index.json (OCI)");
}

/** Reads an archive of `docker save`, whose `manifest.json` names the config and the layers of the image. */
async function readDockerImage(files: ImageFiles): Promise<Image> {
  const images = list(await files.json(files.file("manifest.json"), "manifest.json"), "manifest.json");
  if (images.length !== 1) throw new ImageRefused(`it contains ${images.length} images, but a release has one`);
  const { Config, Layers } = fields(images[0], "manifest.json[0]");
  const layers = list(Layers ?? [], "manifest.json[0].Layers");
  return await files.image(
    files.file(nameOf(Config, "manifest.json[0].Config")),
    layers.map((layer, index) => files.file(nameOf(layer, `manifest.json[0].Layers[${index}]`))),
  );
}

function nameOf(value: unknown, what: string): string {
  if (typeof value !== "string") throw new ImageRefused(`${what} is not a file name`);
  return value;
}

/**
 * Maximum nesting of indexes. An index may contain another index that lists the manifests of the platforms. In practice there is no deeper
 * nesting.
 */
const DEPTH_MAX = 4;
const PLATFORMS_MAX = 32;
const DESCRIPTORS_MAX = 256;

interface Found {
  manifest: TarFile;
  platform: string | undefined;
}

/** Returns the images of an OCI archive, one per platform. */
async function readOciImages(files: ImageFiles): Promise<Image[]> {
  const layout = fields(await files.json(files.file("oci-layout"), "oci-layout"), "oci-layout");
  if (layout["imageLayoutVersion"] !== "1.0.0") throw new ImageRefused("its oci-layout is not version 1.0.0");
  const found = new Map<string, Found>();
  await collect(files, files.file("index.json"), "index.json", found, DEPTH_MAX);
  if (found.size === 0) throw new ImageRefused("its index lists no image");
  if (found.size > PLATFORMS_MAX) throw new ImageRefused(`its index lists ${found.size} images; the limit is ${PLATFORMS_MAX}`);
  const images: Image[] = [];
  for (const { manifest, platform } of found.values()) {
    const { config, layers } = fields(await files.json(manifest, "a manifest"), "a manifest");
    const layer_files = list(layers, "layers of a manifest").map((layer, index) => files.blob(layer, `layers[${index}] of a manifest`));
    images.push(await files.image(files.blob(config, "config of a manifest"), layer_files, platform));
  }
  const platforms = new Set(images.map((image) => image.platform));
  if (platforms.size < images.length)
    throw new ImageRefused(`it contains ${images.length} images for ${platforms.size} platforms, but a release has one per platform`);
  return images;
}

async function collect(files: ImageFiles, index: TarFile, what: string, found: Map<string, Found>, depth: number): Promise<void> {
  if (depth === 0) throw new ImageRefused("its index is nested too deeply");
  const manifests = list(fields(await files.json(index, what), what)["manifests"], `manifests of ${what}`);
  if (manifests.length > DESCRIPTORS_MAX)
    throw new ImageRefused(`${what} lists ${manifests.length} manifests; the limit is ${DESCRIPTORS_MAX}`);
  for (const [at, value] of manifests.entries()) {
    const descriptor = fields(value, `manifests[${at}] of ${what}`);
    if (isAttestation(descriptor)) continue;
    const file = files.blob(descriptor, `manifests[${at}] of ${what}`);
    const holds = fields(await files.json(file, "a manifest"), "a manifest");
    if (Array.isArray(holds["manifests"])) await collect(files, file, "a nested index", found, depth - 1);
    else if (!found.has(file.sha256)) found.set(file.sha256, { manifest: file, platform: platformOf(descriptor) });
    // An image with several names counts only once.
    if (found.size > PLATFORMS_MAX) throw new ImageRefused(`its index lists more than ${PLATFORMS_MAX} images`);
  }
}

/** Returns whether a manifest is a builder's attestation, which is stored beside the images. */
function isAttestation({ annotations, platform }: Fields): boolean {
  const said = annotations === undefined ? {} : fields(annotations, "annotations");
  const { os } = platform === undefined ? {} : fields(platform, "platform");
  return said["vnd.docker.reference.type"] !== undefined || os === "unknown";
}

function platformOf({ platform }: Fields): string | undefined {
  if (platform === undefined) return undefined;
  const { os, architecture, variant } = fields(platform, "platform");
  const parts = [os, architecture, ...(variant === undefined ? [] : [variant])];
  const names = parts.filter((part) => typeof part === "string" && /^[A-Za-z0-9._-]{1,30}$/.test(part));
  if (names.length < parts.length) throw new ImageRefused("its index contains an invalid platform");
  return names.join("/");
}
