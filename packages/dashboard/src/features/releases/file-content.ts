import { isBundleManifest, isGzip, isImageIndex, readTarEntry, tarNames } from "@roamfleet/protocol/release-file";

const BLOCK_BYTES = 512;
/** An image has some hundred files at most. */
const ENTRIES_MAX = 10_000;

/** What a file turns out to be; `kind` is undefined when only its maker knows. */
export interface FileContent {
  kind: "container_image" | "app_bundle" | undefined;
  is_gzip: boolean;
}

/** Looks into a file as `rf releases push` does, without reading all of it. What is broken is nothing that is known. */
export async function lookInside(file: Blob): Promise<FileContent> {
  const is_gzip = isGzip(await bytesAt(file, 0, 2));
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
    // Broken or cut off: no bundle, as far as can be told.
  }
  return false;
}

/** Streams are no async iterables in every browser. */
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

/** From header to header: the layers between them are not read. */
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

/** What the maker of a release should know of a file and the kind that was chosen for it; in the words of `rf releases push`. */
export function noteOf({ kind: found, is_gzip }: FileContent, kind: string): string | undefined {
  if (found === "app_bundle" && kind !== "app_bundle") return "It has a roamfleet.json: it looks like an app bundle.";
  if (found === "app_bundle") return "It has a roamfleet.json: it is released as an app bundle.";
  if (kind !== KIND_DEFAULT || found === KIND_DEFAULT) return undefined;
  return is_gzip
    ? "It is compressed: if it is an image, robots fetch the whole of it each time. Unpack it with gunzip, and they fetch only the layers that they lack."
    : "It is not the archive of an image (docker save): robots that run container images will refuse it. Choose another kind if it is something else.";
}
