import type { Readable } from "node:stream";
import type { AppendOptions, Appended, Blobs, BlobStat, Completed } from "./blobs.ts";

/** Manages the resumable uploads of a blob store. */
export interface Uploads extends Pick<Blobs, "append" | "uploaded" | "complete" | "abandon"> {
  list(): AsyncIterable<BlobStat>;
}

/** Base of blob stores that delegates resumable uploads. */
export abstract class BlobsWithUploads {
  readonly #uploads: Uploads;

  constructor(uploads: Uploads) {
    this.#uploads = uploads;
  }

  append(key: string, stream: Readable, options: AppendOptions): Promise<Appended> {
    return this.#uploads.append(key, stream, options);
  }

  uploaded(key: string): Promise<number> {
    return this.#uploads.uploaded(key);
  }

  complete(key: string, expect: { size: number; sha256: string }): Promise<Completed> {
    return this.#uploads.complete(key, expect);
  }

  abandon(key: string): Promise<void> {
    return this.#uploads.abandon(key);
  }

  listUploads(): AsyncIterable<BlobStat> {
    return this.#uploads.list();
  }
}
