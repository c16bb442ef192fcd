import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { type Header, pack } from "tar-stream";

export type TestEntry = Partial<Header> & { name: string; content?: string | Uint8Array };

/**
 * Creates a real tar.gz with these entries. They may include entries that no normal tool would
 * write.
 */
export async function tarGz(entries: TestEntry[]): Promise<Buffer> {
  const tar = pack();
  for (const { content, ...header } of entries) {
    if (content === undefined) tar.entry({ mtime: new Date(0), ...header });
    else tar.entry({ mtime: new Date(0), ...header }, Buffer.from(content));
  }
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar) chunks.push(chunk as Uint8Array);
  return gzipSync(Buffer.concat(chunks));
}

export interface TestRelease {
  release: DesiredRelease;
  bytes: Buffer;
}

export function releaseOf(id: string, bytes: Buffer, more: Partial<DesiredRelease> = {}): TestRelease {
  const artifact_sha256 = createHash("sha256").update(bytes).digest("hex");
  return {
    bytes,
    release: {
      id: `rel_${id}`,
      tag: id,
      kind: "app_bundle",
      artifact_sha256,
      artifact_size: bytes.length,
      image: null,
      manifest: null,
      ...more,
    },
  };
}

/**
 * Shell script of a healthy workload. A shell starts fast and uses few resources, and tests start
 * hundreds of them.
 */
export const WELL = 'trap "exit 0" TERM; echo "up $ROAMFLEET_RELEASE"; while :; do sleep 0.05; done';

/** A bundle that runs a shell script. */
export async function shellRelease(
  id: string,
  script: string,
  manifest: Record<string, unknown> = {},
  entries: TestEntry[] = [],
): Promise<TestRelease> {
  const content = JSON.stringify({ start: ["sh", "run.sh"], stop_timeout_seconds: 1, ...manifest });
  return releaseOf(id, await tarGz([{ name: "roamfleet.json", content }, { name: "run.sh", content: script }, ...entries]));
}
