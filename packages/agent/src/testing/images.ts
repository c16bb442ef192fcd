import { createHash } from "node:crypto";
import fs from "node:fs";
import { gzipSync } from "node:zlib";
import type { DesiredLayers } from "@roamfleet/protocol/link";
import { type Header, pack } from "tar-stream";
import { releaseOf, type TestRelease } from "./bundles.ts";
import type { ArtifactServer } from "./artifact-server.ts";

const BUSYBOX = "/bin/busybox";
const APPLETS = ["sh", "cat", "echo", "sleep", "touch", "test", "head", "env", "id", "true", "false", "ls", "kill", "dd", "grep", "mkdir"];

export type LayerEntry = Partial<Header> & { name: string; content?: string | Uint8Array };

export async function tarOf(entries: readonly LayerEntry[]): Promise<Buffer> {
  const tar = pack();
  for (const { content, ...header } of entries) {
    if (content === undefined) tar.entry({ mtime: new Date(0), ...header });
    else tar.entry({ mtime: new Date(0), ...header }, Buffer.from(content));
  }
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/**
 * Image layer with a static shell and its commands. It is sufficient for tests and needs no network.
 */
export const busyboxLayer = (): Promise<Buffer> =>
  tarOf([
    { name: "bin/busybox", mode: 0o755, content: fs.readFileSync(BUSYBOX) },
    ...APPLETS.map((applet): LayerEntry => ({ name: `bin/${applet}`, type: "symlink", linkname: "busybox" })),
    { name: "tmp/", type: "directory", mode: 0o777 },
  ]);

export interface TestImage {
  config: Buffer;
  /** The layers in the form in which an archive stores them. */
  layers: Buffer[];
  /** Id of the image, `sha256:…`. */
  id: string;
}

/**
 * Creates an image that runs a shell script. `layers` are uncompressed tars that are placed between
 * the shell and the script.
 */
export async function shellImage(script: string, layers: readonly Buffer[] = [], { gzip = false } = {}): Promise<TestImage> {
  const plain = [await busyboxLayer(), ...layers, await tarOf([{ name: "run.sh", mode: 0o755, content: script }])];
  const config = Buffer.from(
    JSON.stringify({
      architecture: process.arch === "x64" ? "amd64" : process.arch,
      os: "linux",
      created: "1970-01-01T00:00:00Z",
      config: { Cmd: ["/bin/sh", "/run.sh"], Env: ["PATH=/bin"], WorkingDir: "/" },
      rootfs: { type: "layers", diff_ids: plain.map((layer) => `sha256:${sha256(layer)}`) },
      history: plain.map(() => ({ created: "1970-01-01T00:00:00Z", created_by: "test" })),
    }),
  );
  return { config, layers: gzip ? plain.map((layer) => gzipSync(layer)) : plain, id: `sha256:${sha256(config)}` };
}

/** Returns an archive of an image in the format of `docker save`. */
export function dockerArchive({ config, layers }: TestImage, repo_tags: string[] = ["app:latest"]): Promise<Buffer> {
  const manifest = [{ Config: `${sha256(config)}.json`, RepoTags: repo_tags, Layers: layers.map((layer) => `${sha256(layer)}/layer.tar`) }];
  return tarOf([
    ...distinct(layers).map((layer): LayerEntry => ({ name: `${sha256(layer)}/layer.tar`, content: layer })),
    { name: `${sha256(config)}.json`, content: config },
    { name: "manifest.json", content: JSON.stringify(manifest) },
  ]);
}

const distinct = (layers: readonly Buffer[]): Buffer[] => [...new Map(layers.map((layer) => [sha256(layer), layer])).values()];

export interface OciImage {
  /** Blobs of the image by digest. */
  blobs: Map<string, Buffer>;
  manifest: Buffer;
}

export function ociImage({ config, layers }: TestImage): OciImage {
  const gzipped = (layer: Buffer): boolean => layer[0] === 0x1f;
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.manifest.v1+json",
      config: { mediaType: "application/vnd.oci.image.config.v1+json", digest: `sha256:${sha256(config)}`, size: config.length },
      layers: layers.map((layer) => ({
        mediaType: `application/vnd.oci.image.layer.v1.tar${gzipped(layer) ? "+gzip" : ""}`,
        digest: `sha256:${sha256(layer)}`,
        size: layer.length,
      })),
    }),
  );
  return { blobs: new Map([config, manifest, ...layers].map((blob) => [sha256(blob), blob])), manifest };
}

/**
 * Returns an archive of an image in the format of `skopeo copy … oci-archive:` and `docker buildx
 * build -o type=oci`.
 */
export function ociArchive(image: TestImage): Promise<Buffer> {
  const { blobs, manifest } = ociImage(image);
  const index = {
    schemaVersion: 2,
    manifests: [{ mediaType: "application/vnd.oci.image.manifest.v1+json", digest: `sha256:${sha256(manifest)}`, size: manifest.length }],
  };
  return tarOf([
    { name: "oci-layout", content: JSON.stringify({ imageLayoutVersion: "1.0.0" }) },
    { name: "index.json", content: JSON.stringify(index) },
    ...[...blobs].map(([digest, blob]): LayerEntry => ({ name: `blobs/sha256/${digest}`, content: blob })),
  ]);
}

/**
 * Adds the parts of an image to the artifact server. Returns the parts in the form in which the server
 * sends them to robots.
 */
export function serveLayers(server: ArtifactServer, { config, layers }: TestImage, plain: TestImage["layers"] = layers): DesiredLayers {
  for (const part of [config, ...layers]) server.add(part);
  return {
    config: { sha256: sha256(config), size: config.length },
    layers: layers.map((layer, index) => ({ sha256: sha256(layer), size: layer.length, diff_id: sha256(plain[index] ?? layer) })),
  };
}

/** Creates a container release as one file or, with `server`, in parts. */
export async function imageRelease(
  id: string,
  image: TestImage,
  manifest: Record<string, unknown> = {},
  server?: ArtifactServer,
): Promise<TestRelease> {
  return releaseOf(id, await dockerArchive(image), {
    kind: "container_image",
    manifest: { host_network: true, stop_timeout_seconds: 1, ...manifest },
    ...(server === undefined ? {} : { layers: serveLayers(server, image) }),
  });
}

/** Shell script of a container that runs until SIGTERM. */
export const STAYS_UP = 'trap "exit 0" TERM; echo "up $ROAMFLEET_RELEASE"; while :; do sleep 0.1; done';
