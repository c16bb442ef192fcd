import { useEffect, useState } from "react";
import type { DigestNews } from "./digest-worker.ts";
import type { FileContent } from "./file-content.ts";

export interface Digest {
  done_bytes: number;
  content?: FileContent;
  sha256?: string;
  error?: string;
}
const NOTHING: Digest = { done_bytes: 0 };

/** Reads a file in a worker: returns its content type, the progress, and its SHA-256 at the end. Starts again for another file. */
export function useDigest(file: File | undefined): Digest {
  const [digest, setDigest] = useState<{ of: File | undefined; is: Digest }>({ of: undefined, is: NOTHING });
  useEffect(() => {
    if (file === undefined) return undefined;
    const worker = new Worker(new URL("./digest-worker.ts", import.meta.url), { type: "module" });
    const note = (news: Partial<Digest>): void =>
      setDigest(({ of, is }) => ({ of: file, is: { ...(of === file ? is : NOTHING), ...news } }));
    worker.addEventListener("message", ({ data }: MessageEvent<DigestNews>) => note(data));
    worker.addEventListener("error", () => note({ error: "the browser could not read the file" }));
    worker.postMessage(file);
    return () => worker.terminate();
  }, [file]);
  return digest.of === file ? digest.is : NOTHING;
}
