import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

export interface TarEntry {
  name: string;
  content?: Buffer | string;
  /** Type of the entry: one letter of the tar format. "0" is a file. */
  type?: string;
  link?: string;
  /** A wrong size to write into the header. Default: the correct size. */
  size?: number;
}

const BLOCK_BYTES = 512;
const digest = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** Builds a tar archive with exactly these entries, valid or not. */
export function tarOf(entries: readonly TarEntry[], end = Buffer.alloc(2 * BLOCK_BYTES)): Buffer {
  return Buffer.concat([...entries.flatMap(entryBlocks), end]);
}

function entryBlocks({ name, content = "", type = "0", link = "", size }: TarEntry): Buffer[] {
  const bytes = Buffer.from(content);
  const header = Buffer.alloc(BLOCK_BYTES);
  header.write(name, 0, 100);
  header.write("0000644\0", 100);
  header.write(`${(size ?? bytes.length).toString(8).padStart(11, "0")}\0`, 124);
  header.write("        ", 148);
  header.write(type, 156);
  header.write(link, 157, 100);
  header.write("ustar\x0000", 257);
  header.write(
    `${header
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, "0")}\0 `,
    148,
  );
  return [header, bytes, Buffer.alloc((BLOCK_BYTES - (bytes.length % BLOCK_BYTES)) % BLOCK_BYTES)];
}

/** Builds an extended header with these fields for the next entry. */
export function pax(fields: Readonly<Record<string, string>>): TarEntry {
  const lines = Object.entries(fields).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    const bytes = Buffer.byteLength(rest);
    const digits = String(bytes + String(bytes).length).length;
    return `${bytes + digits}${rest}`;
  });
  return { name: "pax", type: "x", content: lines.join("") };
}

export const configOf = (layers: readonly Buffer[], more: object = {}): Buffer =>
  json({
    architecture: "amd64",
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: layers.map((l) => `sha256:${digest(l)}`) },
    ...more,
  });

/** Returns the entries of an archive in the older format of `docker save`: one directory per layer. */
export function dockerEntries(layers: readonly Buffer[], config = configOf(layers)): TarEntry[] {
  const names = layers.map((_, index) => `${digest(Buffer.from(`id ${index}`))}/layer.tar`);
  return [
    ...layers.flatMap((content, index): TarEntry[] => [
      { name: names[index]!.replace("layer.tar", ""), type: "5" },
      { name: names[index]!.replace("layer.tar", "VERSION"), content: "1.0" },
      { name: names[index]!, content },
    ]),
    { name: `${digest(config)}.json`, content: config },
    { name: "manifest.json", content: json([{ Config: `${digest(config)}.json`, RepoTags: ["app:1"], Layers: names }]) },
  ];
}

export const dockerArchive = (layers: readonly Buffer[]): Buffer => tarOf(dockerEntries(layers));

const blob = (content: Buffer): TarEntry => ({ name: `blobs/sha256/${digest(content)}`, content });
export const descriptor = (content: Buffer, more: object = {}) => ({ digest: `sha256:${digest(content)}`, size: content.length, ...more });

export interface PlatformImage {
  layers: Buffer[];
  platform?: { os: string; architecture: string };
}

/** Builds an OCI archive with gzip layers; with several images or `nested`, the index contains an index of the platforms. */
export function ociEntries(images: readonly PlatformImage[], nested = images.length > 1): TarEntry[] {
  const blobs: TarEntry[] = [];
  const add = (content: Buffer): Buffer => {
    if (!blobs.some(({ name }) => name === blob(content).name)) blobs.push(blob(content));
    return content;
  };
  const manifests = images.map(({ layers, platform }) => {
    const config = add(configOf(layers, platform ?? {}));
    const packed = layers.map((layer) => add(gzipSync(layer)));
    const manifest = add(json({ schemaVersion: 2, config: descriptor(config), layers: packed.map((layer) => descriptor(layer)) }));
    return descriptor(manifest, platform === undefined ? {} : { platform });
  });
  const attestation = add(json({ schemaVersion: 2, config: {}, layers: [] }));
  const unknown = descriptor(attestation, { platform: { os: "unknown", architecture: "unknown" } });
  const inner = add(json({ schemaVersion: 2, manifests: [...manifests, unknown] }));
  const index = json({ schemaVersion: 2, manifests: nested ? [descriptor(inner)] : manifests });
  return [{ name: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) }, ...blobs, { name: "index.json", content: index }];
}
