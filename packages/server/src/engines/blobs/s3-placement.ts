import { randomBytes } from "node:crypto";
import { toS3Error } from "./s3-error.ts";
import { forEachOf, type Segment } from "./s3-segments.ts";
import type { S3Part, S3Store } from "./s3-store.ts";

const COPIES_IN_FLIGHT = 8;
/** Metadata key of a multipart object: identifies the attempt that created it. */
const ATTEMPT = "roamfleet-attempt";

interface Prepared {
  key: string;
  id: string;
  attempt: string;
  parts: readonly S3Part[];
}

/**
 * Combines segments into one object under a key. The store copies them, without transfer through this process. `prepare` does the slow
 * part, and one request of `commit` makes the object visible.
 */
export class Placement {
  readonly #store: S3Store;
  readonly #segments: readonly Segment[];
  #prepared: Prepared | undefined;

  constructor(store: S3Store, segments: readonly Segment[]) {
    this.#store = store;
    this.#segments = segments;
  }

  /** Copies all segments into a multipart upload, which `commit` completes. */
  async prepare(key: string): Promise<void> {
    if (this.#segments.length < 2 || this.#prepared?.key === key) return;
    await this.cancel();
    this.#prepared = await this.#copyAll(key);
  }

  /** Prepares if necessary, and makes the object visible, replacing an earlier one under the key. */
  async commit(key: string): Promise<void> {
    const [first] = this.#segments;
    if (first === undefined) return await this.#store.put(key, Buffer.alloc(0));
    if (this.#segments.length === 1) return await this.#store.copy(first.key, key);
    await this.prepare(key);
    const { id, attempt, parts } = this.#prepared as Prepared;
    try {
      await this.#store.completeParts(key, id, parts);
    } catch (error) {
      // If the response to the first attempt was lost, the second one finds no multipart upload.
      if (toS3Error("CompleteMultipartUpload", error).reason !== "NoSuchUpload") throw error;
      if ((await this.#store.head(key))?.metadata[ATTEMPT] !== attempt) throw error;
    }
    this.#prepared = undefined;
  }

  /** Aborts the prepared multipart upload. */
  async cancel(): Promise<void> {
    if (this.#prepared === undefined) return;
    const { key, id } = this.#prepared;
    this.#prepared = undefined;
    await this.#store.abortParts(key, id);
  }

  async #copyAll(key: string): Promise<Prepared> {
    const attempt = randomBytes(8).toString("hex");
    const id = await this.#store.beginParts(key, { [ATTEMPT]: attempt });
    try {
      const parts: S3Part[] = [];
      await forEachOf([...this.#segments.entries()], COPIES_IN_FLIGHT, async ([index, segment]) => {
        parts[index] = await this.#store.copyPart(key, id, index + 1, segment.key);
      });
      return { key, id, attempt, parts };
    } catch (error) {
      await this.#store.abortParts(key, id).catch(() => {});
      throw error;
    }
  }
}
