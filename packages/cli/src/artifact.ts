import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { usage } from "./failure.ts";

const MANIFEST_BYTES_MAX = 262_144;

/** Digest and size (in bytes) of a release's artifact. */
export interface Artifact {
  sha256: string;
  size: number;
}

/** Computes digest and size of a file in one pass. */
export async function digestFile(file: string, on_progress: (done: number, total: number) => void): Promise<Artifact> {
  const status = await stat(file);
  if (status.isDirectory()) throw usage(`${file} is a directory`, `Pack it first: tar -czf ${path.basename(file)}.tar.gz -C ${file} .`);
  if (!status.isFile()) throw usage(`${file} is not a regular file`);
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    size += chunk.length;
    on_progress(size, status.size);
  }
  return { sha256: hash.digest("hex"), size };
}

/** Reads the object in a file: YAML if the extension says so, otherwise JSON. */
export async function readManifest(file: string): Promise<Record<string, unknown>> {
  const content = await readFile(file);
  if (content.length > MANIFEST_BYTES_MAX)
    throw usage(`${file} is too long for a manifest: ${content.length} bytes of at most ${MANIFEST_BYTES_MAX}`);
  const is_yaml = /\.ya?ml$/i.test(file);
  let value: unknown;
  try {
    value = is_yaml ? (await import("yaml")).parse(content.toString()) : JSON.parse(content.toString());
  } catch (error) {
    throw usage(`${file} is not valid ${is_yaml ? "YAML" : "JSON"}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw usage(`${file} does not contain an object`);
  return value as Record<string, unknown>;
}
