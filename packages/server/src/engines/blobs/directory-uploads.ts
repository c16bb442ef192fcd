import { createHash, type Hash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import {
  type Appended,
  type AppendOptions,
  BlobError,
  type BlobRange,
  type BlobStat,
  type Completed,
  splitKey,
  type Staged,
} from "./blobs.ts";
import { entriesOf, errorCode, hashFile, syncDirectory } from "../../kernel/files.ts";
import { chunksOf, heard, refuse, statOf, writeFully } from "./streams.ts";
import { LRUCache } from "lru-cache";

/** Data is synced to disk each time this many bytes have arrived. A power failure loses about this many bytes of an upload at most. */
const SYNC_BYTES = 16 * 1024 * 1024;
/** Maximum running digests in memory. If the digest of an upload was evicted, its whole file is read again at the end of the upload. */
const DIGESTS_MAX = 1_000;

/** A complete upload, stored as a file. */
export class StagedFile implements Staged {
  readonly size: number;
  readonly sha256: string;
  readonly #path: string;
  readonly #place: (key: string) => Promise<void>;
  #state: "staged" | "committed" | "discarded" = "staged";

  constructor(path: string, { size, sha256 }: { size: number; sha256: string }, place: (key: string) => Promise<void>) {
    this.#path = path;
    this.size = size;
    this.sha256 = sha256;
    this.#place = place;
  }

  read(range?: BlobRange): Readable {
    return createReadStream(this.#path, range);
  }

  /** Does nothing, because `commit` only needs a rename, which is fast. */
  async prepare(): Promise<void> {}

  async commit(key: string): Promise<void> {
    if (this.#state === "discarded") throw new Error("the upload was already discarded");
    if (this.#state === "staged") await this.#place(key);
    this.#state = "committed";
  }

  async discard(): Promise<void> {
    if (this.#state !== "staged") return;
    this.#state = "discarded";
    await rm(this.#path, { force: true });
  }
}

interface Digest {
  bytes: number;
  hash: Hash;
}

/**
 * Stores resumable uploads as files `<directory>/<owner>/<name>`. The length of the file is the only state of an upload. The file is synced
 * to disk before its length is reported, so that a reported length never shrinks after a crash. The digest is computed while bytes arrive
 * and is only in memory. After a restart it is computed from the file when the upload is complete.
 */
export class DirectoryUploads {
  readonly #directory: string;
  readonly #place: (file: string, key: string) => Promise<void>;
  readonly #digests = new LRUCache<string, Digest>({ max: DIGESTS_MAX });

  /** `place` renames a complete upload to its path as a blob. */
  constructor(directory: string, place: (file: string, key: string) => Promise<void>) {
    this.#directory = directory;
    this.#place = place;
  }

  async append(key: string, stream: Readable, options: AppendOptions): Promise<Appended> {
    using _ = heard(stream);
    try {
      await using handle = await this.#open(key);
      const { size } = await handle.stat();
      if (size !== options.offset) throw new BlobError("bad_range", `the upload has ${size} bytes, not ${options.offset}`);
      return await this.#write(key, handle, stream, options);
    } catch (error) {
      return refuse(error);
    }
  }

  async uploaded(key: string): Promise<number> {
    try {
      await using handle = await open(this.#path(key), "r");
      // A killed process may have left bytes that are not synced yet.
      await handle.sync();
      return (await handle.stat()).size;
    } catch (error) {
      if (errorCode(error) === "ENOENT") return 0;
      throw error;
    }
  }

  async complete(key: string, expect: { size: number; sha256: string }): Promise<Completed> {
    const file = this.#path(key);
    await using handle = await this.#open(key);
    const { size } = await handle.stat();
    if (size !== expect.size) throw new BlobError("mismatch", `received ${size} bytes, expected ${expect.size}`);
    const ready = this.#digests.get(key);
    const sha256 = ready?.bytes === size ? ready.hash.copy().digest("hex") : (await hashFile(file)).sha256;
    if (sha256 !== expect.sha256) throw new BlobError("mismatch", `the received data has SHA-256 ${sha256}, expected ${expect.sha256}`);
    await handle.sync();
    return new StagedFile(file, expect, async (blob_key) => {
      await this.#place(file, blob_key);
      this.#digests.delete(key);
    });
  }

  async abandon(key: string): Promise<void> {
    this.#digests.delete(key);
    await rm(this.#path(key), { force: true });
  }

  async *listUploads(): AsyncGenerator<BlobStat> {
    for (const owner of await entriesOf(this.#directory)) {
      for (const { name } of await entriesOf(join(this.#directory, owner.name))) {
        const key = `${owner.name}/${name}`;
        const found = await statOf(this.#path(key), key);
        if (found !== undefined) yield found;
      }
    }
  }

  #path(key: string): string {
    const { owner, name } = splitKey(key);
    return join(this.#directory, owner, name);
  }

  async #open(key: string): Promise<FileHandle> {
    const file = this.#path(key);
    const directory = dirname(file);
    const made = await mkdir(directory, { recursive: true, mode: 0o700 });
    const handle = await open(file, constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      if ((await handle.stat()).size === 0) await syncDirectory(directory);
      if (made !== undefined) await syncDirectory(this.#directory);
      return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async #write(key: string, handle: FileHandle, stream: Readable, options: AppendOptions): Promise<Appended> {
    const digest = this.#digestAt(key, options.offset);
    let size = options.offset;
    let synced = size;
    let whole = true;
    try {
      for await (const chunk of chunksOf(stream, options.signal)) {
        if (size + chunk.byteLength > options.max_bytes) throw new BlobError("too_large", `more than ${options.max_bytes} bytes`);
        await writeFully(handle, chunk, size);
        digest?.hash.update(chunk);
        size += chunk.byteLength;
        if (digest !== undefined) digest.bytes = size;
        options.on_bytes?.(chunk.byteLength);
        if (size - synced < SYNC_BYTES) continue;
        await handle.datasync();
        synced = size;
      }
    } catch (error) {
      if (!(error instanceof BlobError) || error.code !== "interrupted") throw error;
      whole = false;
    } finally {
      await handle.sync();
    }
    return { size, whole };
  }

  /** Returns the running digest of the first `offset` bytes, for the caller to update; undefined if it was evicted. */
  #digestAt(key: string, offset: number): Digest | undefined {
    const known = this.#digests.get(key);
    if (known?.bytes === offset) return known;
    this.#digests.delete(key);
    if (offset > 0) return undefined;
    const begun = { bytes: 0, hash: createHash("sha256") };
    this.#digests.set(key, begun);
    return begun;
  }
}
