import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { ImageRefused, type TarContents, type TarFile } from "./tar-scan.ts";

/** Reads the whole archive, or with `range` only its bytes from `start` to `end` inclusive. */
export type ReadRange = (range?: { start: number; end: number }) => Promise<Readable>;
export type Fields = Record<string, unknown>;

/** Maximum bytes of one of the JSON documents that describe an image. */
const DOCUMENT_BYTES_MAX = 4 * 1024 * 1024;
const DOCUMENTS_MAX = 400;
/** Maximum layers of an image; Docker builds at most 127. */
const LAYERS_MAX = 512;
const LINKS_MAX = 8;
const DIGEST = /^sha256:([0-9a-f]{64})$/;
const NAMED_BY_DIGEST = /^(?:blobs\/sha256\/([0-9a-f]{64})|([0-9a-f]{64})\.json)$/;
const COMPRESSED = [Buffer.from([0x1f, 0x8b]), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])];

/** The files of an image's archive, and the JSON documents in them. */
export class ImageFiles {
  readonly #contents: TarContents;
  readonly #read: ReadRange;
  #documents = 0;

  constructor(contents: TarContents, read: ReadRange) {
    this.#contents = contents;
    this.#read = read;
  }

  has(name: string): boolean {
    return this.#contents.files.has(name) || this.#contents.links.has(name);
  }

  /** Checks all files whose names are digests, also unused ones. Throws ImageRefused if the content of a file has another digest. */
  checkNames(): void {
    for (const [name, { sha256 }] of this.#contents.files) {
      const match = NAMED_BY_DIGEST.exec(name);
      if (match !== null && sha256 !== (match[1] ?? match[2])) throw new ImageRefused(`the digest of ${name} does not match: ${sha256}`);
    }
  }

  file(name: string): TarFile {
    let at = name;
    for (let links = 0; links < LINKS_MAX; links += 1) {
      const found = this.#contents.files.get(at);
      if (found !== undefined) return found;
      const next = this.#contents.links.get(at);
      if (next === undefined) break;
      at = next;
    }
    throw new ImageRefused(`it has no file ${JSON.stringify(name.slice(0, 100))}`);
  }

  /** Returns the blob of an OCI descriptor. */
  blob(descriptor: unknown, what: string): TarFile {
    const { digest, size } = fields(descriptor, what);
    const hex = typeof digest === "string" ? DIGEST.exec(digest)?.[1] : undefined;
    if (hex === undefined) throw new ImageRefused(`${what} has no sha256 digest`);
    const file = this.file(`blobs/sha256/${hex}`);
    if (file.sha256 !== hex) throw new ImageRefused(`the digest of ${what} does not match: ${file.sha256}`);
    if (size !== file.size) throw new ImageRefused(`${what} has ${file.size} bytes, not ${String(size).slice(0, 30)}`);
    return file;
  }

  /** Returns the JSON in a file. */
  async json({ start, size }: TarFile, what: string): Promise<unknown> {
    this.#documents += 1;
    if (this.#documents > DOCUMENTS_MAX) throw new ImageRefused(`it has more than ${DOCUMENTS_MAX} documents`);
    if (size > DOCUMENT_BYTES_MAX) throw new ImageRefused(`${what} has ${size} bytes; the limit is ${DOCUMENT_BYTES_MAX}`);
    const bytes = size === 0 ? Buffer.alloc(0) : await buffer(await this.#read({ start, end: start + size - 1 }));
    try {
      return JSON.parse(bytes.toString("utf8"));
    } catch {
      throw new ImageRefused(`${what} is not valid JSON`);
    }
  }

  /** Returns the image with this config and these layers, which are ordered from lowest to topmost. */
  async image(config: TarFile, layers: readonly TarFile[], platform?: string): Promise<Image> {
    const content = fields(await this.json(config, "the image's config"), "the image's config");
    const diff_ids = list(fields(content["rootfs"], "rootfs of the image's config")["diff_ids"], "rootfs.diff_ids of the image's config");
    if (diff_ids.length !== layers.length || layers.length > LAYERS_MAX)
      throw new ImageRefused(`it has ${layers.length} layers but its config lists ${diff_ids.length}; the limit is ${LAYERS_MAX}`);
    const own = [content["os"], content["architecture"], content["variant"]].filter((part) => typeof part === "string" && part !== "");
    return {
      platform: platform ?? (own.length >= 2 ? own.join("/").slice(0, 100) : ""),
      config: part(config),
      layers: layers.map((layer, index) => this.#layer(layer, diff_ids[index], index)),
    };
  }

  #layer(layer: TarFile, diff_id: unknown, index: number): ImageLayer {
    const hex = typeof diff_id === "string" ? DIGEST.exec(diff_id)?.[1] : undefined;
    if (hex === undefined) throw new ImageRefused(`rootfs.diff_ids[${index}] of the image's config is not a sha256 digest`);
    // The image's config contains the digests of uncompressed layers. A compressed layer is therefore verified later, after it is unpacked.
    const compressed = COMPRESSED.some((magic) => magic.equals(layer.head.subarray(0, magic.length)));
    if (!compressed && layer.sha256 !== hex)
      throw new ImageRefused(`the digest of layer ${index + 1} does not match the image's config: ${layer.sha256}`);
    return { ...part(layer), diff_id: hex };
  }
}

const part = ({ sha256, size, start }: TarFile) => ({ sha256, size, start });

export function fields(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ImageRefused(`${what} is not an object`);
  return value as Fields;
}

export function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new ImageRefused(`${what} is not a list`);
  return value;
}

/** A part of an image, such as a layer. It refers to a position in the archive, so that its bytes are not stored twice. */
export interface ImagePart {
  sha256: string;
  /** Size in bytes. */
  size: number;
  /** Offset of the part's first byte in the archive. */
  start: number;
}

export interface ImageLayer extends ImagePart {
  /** SHA-256 of the layer's plain tar, lower-case hex. */
  diff_id: string;
}

/** An image as its archive describes it, with every digest verified. */
export interface Image {
  /** `os/architecture` or `os/architecture/variant`; "" if unknown. */
  platform: string;
  config: ImagePart;
  /** The layers of the image, from lowest to topmost. */
  layers: ImageLayer[];
}
