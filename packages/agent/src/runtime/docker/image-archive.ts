import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import type { DesiredLayers } from "@roamfleet/protocol/link";
import { type Extract, extract, type Header, pack, type Pack } from "tar-stream";
import { hash } from "node:crypto";
import { errorText } from "../../disk/write-atomically.ts";
import { fieldsOf, listOf, textsOf } from "../../json.ts";
import { StepFailure } from "../failure.ts";
import { IMAGE_JSON_BYTES_MAX, IMAGE_LAYERS_MAX } from "../limits.ts";

type Entry = Extract extends AsyncIterable<infer Source> ? Source : never;

/** Describes the image in an archive. `config` and `layers` are names of entries in the archive. */
interface ArchivedImage {
  /** The engine's id of the image, `sha256:…`: the digest of its config. */
  image_id: string;
  config: string;
  layers: string[];
}

const refused = (why: string): StepFailure => new StepFailure("rejected_by_robot", `the image archive ${why}`);

/** Creates an image archive like `docker save`, from the image's parts on the robot's disk. `file` returns the path of a part. */
export function composeArchive(layers: DesiredLayers, tag: string, file: (sha256: string) => string): Readable {
  const tar = pack();
  const name = (sha256: string): string => `blobs/sha256/${sha256}`;
  const write = async (): Promise<void> => {
    const distinct = new Map([layers.config, ...layers.layers].map((part) => [part.sha256, part]));
    for (const { sha256, size } of distinct.values())
      await writeEntry(tar, { name: name(sha256), size, mtime: new Date(0) }, fs.createReadStream(file(sha256)));
    endArchive(tar, { config: name(layers.config.sha256), layers: layers.layers.map(({ sha256 }) => name(sha256)) }, tag);
  };
  write().catch((error: unknown) => tar.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(tar);
}

async function writeEntry(tar: Pack, header: Partial<Header> & { name: string }, content: AsyncIterable<Uint8Array>): Promise<void> {
  const entry = tar.entry(header);
  const ended = once(entry, "close");
  // The entry may fail before `ended` is awaited. This handler prevents an unhandled rejection.
  ended.catch(() => {});
  for await (const chunk of content) {
    if (entry.destroyed) throw new Error("the archive is no longer read");
    if (!entry.write(chunk)) await Promise.race([once(entry, "drain"), ended]);
  }
  entry.end(null);
  await ended;
}

function endArchive(tar: Pack, { config, layers }: Pick<ArchivedImage, "config" | "layers">, tag: string): void {
  tar.entry({ name: "manifest.json", mtime: new Date(0) }, JSON.stringify([{ Config: config, RepoTags: [tag], Layers: layers }]));
  tar.finalize();
}

/**
 * Entries that describe the original archive. They are not copied, because an engine would use the image names or the archive format that
 * they describe.
 */
const DESCRIPTIONS = new Set(["manifest.json", "repositories", "index.json", "oci-layout"]);

/** Converts a docker-archive or an OCI archive to a docker-archive that contains only this image, with the name `tag`. */
export function renameArchive(archive: string, image: ArchivedImage, tag: string): Readable {
  const tar = pack();
  const copy = async (): Promise<void> => {
    await eachEntry(archive, async ({ pax: _, ...header }, content) => {
      if (DESCRIPTIONS.has(entryName(header))) return;
      // Omit the extended header, since it contains the original name of the entry.
      const named = { ...header, name: entryName(header) };
      if (header.type === "file") await writeEntry(tar, named, Readable.from(content));
      else if (header.type === "symlink" || header.type === "link") tar.entry(named);
    });
    endArchive(tar, image, tag);
  };
  copy().catch((error: unknown) => tar.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(tar);
}

/** Returns the path of an entry below the directory into which an engine unpacks the archive. */
const entryName = ({ name }: Pick<Header, "name">): string => path.posix.resolve("/", name).slice(1);

async function eachEntry(archive: string, use: (header: Header, content: Entry) => Promise<void>): Promise<void> {
  const entries = extract();
  const is_gzip = await isGzip(archive);
  // Do not await between here and the pipeline. The pipeline adds the listener for read errors of the file.
  const file = fs.createReadStream(archive);
  const reading = is_gzip ? pipeline(file, createGunzip(), entries) : pipeline(file, entries);
  const using = (async (): Promise<void> => {
    for await (const entry of entries) {
      await use(entry.header, entry);
      entry.resume();
    }
  })();
  await Promise.all([reading, using]);
}

/** Returns the size in bytes of an archive's contents after its gzip layers are unpacked. Stops counting above `max`. */
export async function unpackedArchiveBytes(archive: string, max: number, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  const enough = new Error("the limit was reached");
  try {
    await eachEntry(archive, async ({ type }, content) => {
      if (type === "file")
        bytes += await unpackedBytesOf(content, max - bytes, signal).catch((error: unknown) => {
          signal.throwIfAborted();
          throw refused(`contains a layer that cannot be unpacked: ${errorText(error)}`);
        });
      if (bytes > max) throw enough;
    });
  } catch (error) {
    if (error !== enough) throw error;
  }
  return bytes;
}

/**
 * Reads which image a docker-archive or an OCI archive contains. `arch` is the machine's architecture as Node names it. Throws
 * StepFailure `rejected_by_robot`.
 */
export async function readArchive(archive: string, arch: string): Promise<ArchivedImage> {
  const documents = new Map<string, Buffer>();
  let bytes = 0;
  try {
    await eachEntry(archive, async (header, content) => {
      if (header.type !== "file" || (header.size ?? 0) > IMAGE_JSON_BYTES_MAX) return;
      const name = entryName(header);
      const chunks: Uint8Array[] = [];
      for await (const chunk of content) chunks.push(chunk as Uint8Array);
      const document = Buffer.concat(chunks);
      // Keep only JSON documents, which begin with { or [. Other small entries are layers.
      if (!/^\s*[[{]/.test(document.subarray(0, 64).toString("latin1"))) return;
      bytes += document.length;
      if (bytes > 4 * IMAGE_JSON_BYTES_MAX) throw refused("has too many documents");
      documents.set(name, document);
    });
  } catch (error) {
    if (error instanceof StepFailure) throw error;
    throw refused(`is not a tar file: ${errorText(error)}`);
  }
  const { config, layers } = documents.has("manifest.json") ? readDockerArchive(documents) : readOciArchive(documents, arch);
  const content = documents.get(config);
  if (content === undefined) throw refused(`lacks the config ${config}`);
  if (layers.length > IMAGE_LAYERS_MAX) throw refused(`has more than ${IMAGE_LAYERS_MAX} layers`);
  return { image_id: `sha256:${hash("sha256", content)}`, config, layers };
}

type Documents = ReadonlyMap<string, Buffer>;

function parse(documents: Documents, name: string): unknown {
  const document = documents.get(name);
  if (document === undefined) throw refused(`lacks ${name}`);
  try {
    return JSON.parse(document.toString("utf8"));
  } catch {
    throw refused(`has a ${name} that is not JSON`);
  }
}

function readDockerArchive(documents: Documents): Pick<ArchivedImage, "config" | "layers"> {
  const images = parse(documents, "manifest.json");
  if (!Array.isArray(images) || images.length !== 1) throw refused("must contain exactly one image");
  const { Config, Layers } = fieldsOf(images[0]);
  if (typeof Config !== "string") throw refused("names no config");
  return { config: Config, layers: textsOf(Layers) };
}

const OCI_ARCHITECTURES: Record<string, string> = { x64: "amd64", ia32: "386" };
const blobName = (digest: unknown): string =>
  typeof digest === "string" ? `blobs/${digest.replace(":", "/")}` : "a blob without a digest";

/** Finds the image manifest for this machine in an OCI index, following nested indexes. */
function readOciArchive(documents: Documents, arch: string): Pick<ArchivedImage, "config" | "layers"> {
  let manifest = fieldsOf(parse(documents, "index.json"));
  for (let depth = 0; Array.isArray(manifest["manifests"]); depth += 1) {
    if (depth > 4) throw refused("has indexes that are nested too deeply");
    const candidates = manifest["manifests"].map(fieldsOf).filter(({ platform }) => fitsMachine(fieldsOf(platform), arch));
    if (candidates.length === 0)
      throw new StepFailure("incompatible", `the image archive has no image for ${OCI_ARCHITECTURES[arch] ?? arch}`);
    if (candidates.length > 1) throw refused("must contain exactly one image for this robot");
    manifest = fieldsOf(parse(documents, blobName(candidates[0]?.["digest"])));
  }
  const { config, layers } = manifest;
  return {
    config: blobName(fieldsOf(config)["digest"]),
    layers: listOf(layers).map((layer) => blobName(fieldsOf(layer)["digest"])),
  };
}

/**
 * Returns whether a manifest is for this machine. A manifest without a platform fits any machine. Builders add attestations, whose
 * platform is "unknown".
 */
function fitsMachine({ architecture, os }: Record<string, unknown>, arch: string): boolean {
  if (architecture === undefined && os === undefined) return true;
  return os === "linux" && architecture === (OCI_ARCHITECTURES[arch] ?? arch);
}

/**
 * Returns the total size in bytes of these files after unpacking those that are gzip. The packed size is no limit: an engine would unpack
 * until its disk is full. Stops counting above `max`. A damaged file counts as 0, since the engine refuses it.
 */
export async function unpackedBytes(files: readonly string[], max: number, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for (const file of files) {
    if (bytes > max) break;
    try {
      bytes += await unpackedBytesOf(fs.createReadStream(file), max - bytes, signal);
    } catch (error) {
      signal.throwIfAborted();
      if ((error as NodeJS.ErrnoException).code === "ENOENT") throw error;
    }
  }
  return bytes;
}

/**
 * Returns the number of bytes in a stream, after unpacking it if it is gzip. Stops counting above `max`. Throws if the stream is damaged.
 */
async function unpackedBytesOf(content: AsyncIterable<unknown>, max: number, signal: AbortSignal): Promise<number> {
  const chunks = (content as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  const first = await chunks.next();
  if (first.done === true) return 0;
  const all = async function* (): AsyncGenerator<Uint8Array> {
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => chunks };
  };
  let bytes = 0;
  const enough = new AbortController();
  const count = async (unpacked: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of unpacked) {
      bytes += chunk.length;
      if (bytes > max) enough.abort();
    }
  };
  try {
    const ends = { signal: AbortSignal.any([signal, enough.signal]) };
    await (startsAsGzip(first.value) ? pipeline(all, createGunzip(), count, ends) : pipeline(all, count, ends));
  } catch (error) {
    if (signal.aborted || !enough.signal.aborted) throw error;
  }
  return bytes;
}

const startsAsGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Returns whether the file begins with the magic number of gzip. */
async function isGzip(file: string): Promise<boolean> {
  await using handle = await fs.promises.open(file);
  const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
  return startsAsGzip(buffer);
}
