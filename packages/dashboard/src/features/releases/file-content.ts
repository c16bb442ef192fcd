import { HEAD_BYTES, isBundleManifest, isGzip, isImageIndex, isOsImage, readTarEntry, tarNames } from "@roamfleet/protocol/release-file";

const BLOCK_BYTES = 512;
/** Maximum archive entries to check. Images have a few hundred at most. */
const ENTRIES_MAX = 10_000;

/** The detected content of a file; `kind` is undefined if unknown. */
export interface FileContent {
  kind: "container_image" | "app_bundle" | "os_image" | undefined;
  is_gzip: boolean;
}

/** Detects the content of a file as `rf releases push` does, without reading all of it. Damaged files are unknown. */
export async function lookInside(file: Blob): Promise<FileContent> {
  const head = await bytesAt(file, 0, HEAD_BYTES);
  const is_gzip = isGzip(head);
  if (isOsImage(head)) return { kind: "os_image", is_gzip };
  const kind = is_gzip ? ((await isBundle(file)) ? "app_bundle" : undefined) : (await isImage(file)) ? "container_image" : undefined;
  return { kind, is_gzip };
}

const bytesAt = async (file: Blob, start: number, length: number): Promise<Uint8Array> =>
  new Uint8Array(await file.slice(start, start + length).arrayBuffer());

async function isBundle(file: Blob): Promise<boolean> {
  const unpacked = file.stream().pipeThrough(new DecompressionStream("gzip"));
  try {
    for await (const name of tarNames(chunksOf(unpacked))) if (isBundleManifest(name)) return true;
  } catch {
    // A damaged or truncated file is not recognized as a bundle.
  }
  return false;
}

/** Yields the chunks of a stream. Not all browsers support async iteration of streams. */
async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Returns whether a file is an image archive. Reads the headers of the tar archive and skips the contents of its files. */
async function isImage(file: Blob): Promise<boolean> {
  let start = 0;
  for (let entries = 0; entries < ENTRIES_MAX && start + BLOCK_BYTES <= file.size; entries += 1) {
    const entry = readTarEntry(await bytesAt(file, start, BLOCK_BYTES));
    if (entry === undefined) return false;
    if (isImageIndex(entry.name)) return true;
    start += entry.length;
  }
  return false;
}

export const KIND_DEFAULT = "container_image";

/** Returns a note or warning about a file and its selected kind, in the words of `rf releases push`. */
export function noteOf({ kind: found, is_gzip }: FileContent, kind: string): string | undefined {
  if (found === "app_bundle" && kind !== "app_bundle") return "The file contains a roamfleet.json, so it looks like an app bundle.";
  if (found === "app_bundle") return "The file contains a roamfleet.json, so it will be released as an app bundle.";
  if (found === "os_image")
    return kind === "os_image"
      ? "The file is a squashfs image, like RAUC bundles, so it will be released as an OS image."
      : "The file looks like a RAUC bundle, which is an OS image.";
  if (kind !== KIND_DEFAULT || found === KIND_DEFAULT) return undefined;
  return is_gzip
    ? "The file is compressed. If it is an image, robots download the whole file each time. Decompress the file with gunzip to let robots download only missing layers."
    : "The file is not an image archive (docker save), so robots will refuse it as a container image. For other content, choose another kind.";
}
