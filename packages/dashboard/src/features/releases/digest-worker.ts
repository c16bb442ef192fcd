import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { type FileContent, lookInside } from "./file-content.ts";

/** Maximum bytes of the file that are in memory at the same time. */
const PART_BYTES = 4 * 1024 * 1024;

/** Messages of the worker, in this order: the content type, the progress, the digest; or an error. */
export type DigestNews = { content: FileContent } | { done_bytes: number } | { sha256: string } | { error: string };

const tell = (news: DigestNews): void => postMessage(news);

/** Each worker reads one file. The page terminates the worker afterwards. */
addEventListener("message", ({ data: file }: MessageEvent<File>) => {
  digest(file).catch((error: unknown) => tell({ error: error instanceof Error ? error.message : String(error) }));
});

async function digest(file: File): Promise<void> {
  tell({ content: await lookInside(file) });
  const hash = sha256.create();
  for (let start = 0; start < file.size; start += PART_BYTES) {
    const part = new Uint8Array(await file.slice(start, start + PART_BYTES).arrayBuffer());
    hash.update(part);
    tell({ done_bytes: start + part.length });
  }
  tell({ sha256: bytesToHex(hash.digest()) });
}
