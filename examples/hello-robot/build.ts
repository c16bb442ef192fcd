import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";

/** 1.0.0 works, 1.1.0 is better, 2.0.0 becomes unhealthy two seconds after its start. */
export const HELLO_VERSIONS = ["1.0.0", "1.1.0", "2.0.0"] as const;
export type HelloVersion = (typeof HELLO_VERSIONS)[number];

export interface Bundle {
  bytes: Buffer;
  sha256: string;
  size: number;
}

/** Packs a version of hello-robot into a tar.gz. The same files always give the same bytes. */
export async function buildHelloRobot(version: HelloVersion): Promise<Bundle> {
  const directory = join(import.meta.dirname, version);
  const tar = pack();
  for (const name of readdirSync(directory).toSorted()) {
    tar.entry({ name, mode: 0o644, mtime: new Date(0), uid: 0, gid: 0 }, readFileSync(join(directory, name)));
  }
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar) chunks.push(chunk as Uint8Array);
  const bytes = gzipSync(Buffer.concat(chunks), { level: 9 });
  // This byte of gzip's header names the operating system: 255 means unknown.
  bytes[9] = 255;
  return { bytes, sha256: createHash("sha256").update(bytes).digest("hex"), size: bytes.length };
}
